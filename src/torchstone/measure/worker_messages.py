"""Convert between the records of a run and the messages that parent and worker exchange."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import structs

from torchstone.core.benchmark_source import BenchmarkSource
from torchstone.core.caution_kinds import CautionKind
from torchstone.core.cautions import Caution
from torchstone.worker.protocol.caution_message import CautionMessage
from torchstone.worker.protocol.source_message import SourceMessage


def caution_of(message: CautionMessage) -> Caution:
    """Return a worker's caution as a value."""
    return Caution(CautionKind(message.kind), {**message.numbers}, {**message.names})


def source_message(source: BenchmarkSource) -> SourceMessage:
    """Return the message that names a source to a worker."""
    return SourceMessage(**structs.asdict(source))


def source_messages(sources: Iterable[BenchmarkSource]) -> tuple[SourceMessage, ...]:
    """Return the messages that name sources to a worker."""
    return tuple(map(source_message, sources))
