"""``read``: read results or expected values from a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypedDict

from msgspec import Struct

from torchstone.api.requests import Source, make_request
from torchstone.api.results import RunResult
from torchstone.api.sources import Axes, Input, read_inputs

if TYPE_CHECKING:
    from typing import Unpack


class ReadRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file, its format unless it is to be detected, and axes that it does not state."""

    file: Input
    kind: str = ""
    axes: Axes = ()


class ReadOptions(TypedDict, total=False):
    """Options of ``read``."""

    kind: str
    axes: Mapping[str, object]


def read(file: Source, **options: Unpack[ReadOptions]) -> RunResult:
    """Read a run file, or a file in any other format that torchstone reads (docs/formats.md).

    torchstone.read("results.csv", axes={"device": "cuda"}).to_dicts()
    """
    request = make_request(ReadRequest, {"file": file, **options})
    return RunResult(read_inputs([request.file], request.kind, request.axes)[0])
