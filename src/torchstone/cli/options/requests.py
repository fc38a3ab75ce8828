"""Values of command line options -> a request record."""

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
    """The request that the options of a command line ask for; an option that was not given leaves the record's default.

    An option fills the field of its name. ``others`` are fields that no option fills by itself.
    """
    fields = {*kind.__struct_fields__}
    given = {
        option.name: option.parse(option.flag, value) if option.parse else value
        for option in options
        if option.name in fields and (value := values[option.name]) not in NOT_GIVEN
    }
    return kind(**{**given, **others})
