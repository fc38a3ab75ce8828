"""Make request records from the values of command line options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from msgspec import Struct

from torchstone.cli.options.plain import Option

Request = TypeVar("Request", bound=Struct)

NOT_GIVEN = (None, (), False)


def make_request(
    kind: type[Request], options: Sequence[Option], values: Mapping[str, Any], **others: object
) -> Request:
    """Make a request from option values. An option sets the field of its name; the field of an option that was not given keeps its default.

    ``others`` are further fields.
    """
    fields = {*kind.__struct_fields__}
    given = {
        option.name: option.parse(option.flag, value) if option.parse else value
        for option in options
        if option.name in fields and (value := values[option.name]) not in NOT_GIVEN
    }
    return kind(**{**given, **others})
