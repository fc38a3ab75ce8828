"""``read``: results, or expected values, from a file of any kind."""

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
    """A file, its kind where that is not to be recognised, and axes that it does not state."""

    file: Input
    kind: str = ""
    axes: Axes = ()


class ReadOptions(TypedDict, total=False):
    """What ``read`` takes besides the file."""

    kind: str
    axes: Mapping[str, object]


def read(file: Source, **options: Unpack[ReadOptions]) -> RunResult:
    """Read a run file, or a file of any other kind torchstone knows (docs/formats.md).

    torchstone.read("results.csv", axes={"device": "cuda"}).to_dicts()
    """
    request = make_request(ReadRequest, {"file": file, **options})
    return RunResult(read_inputs([request.file], request.kind, request.axes)[0])
