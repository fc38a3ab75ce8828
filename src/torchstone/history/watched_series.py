"""What changes are looked for in, and what is kept of it between two looks: a row of ``detections``."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from torchstone.analyze.changepoints import Decided, Kind
from torchstone.core.vocabulary import METRICS
from torchstone.store.identity import name_detection
from torchstone.store.reading_runs import is_counted

STALE = -1
"""The number of points of a series that has to be looked at again as a whole."""
SHARE = "share"
"""The unit of a metric that is a pass rate: of as many as there are samples."""
_MEMORY = frozenset({"bytes", "KB", "MB", "GB", "KiB", "MiB", "GiB"})


Key = int | tuple[int, int]
"""The id of a series; of statuses, those of the case and of the class of machines."""


class Watched(Struct, frozen=True):
    """A series, or the statuses of a case on a class of machines, on one branch."""

    series_id: int | None
    case_id: int
    machine_id: int
    branch: str
    kind: Kind
    better: str

    @property
    def name(self) -> str:
        """The name of its row."""
        return name_detection(self.series_id, self.case_id, self.machine_id, self.branch)

    @property
    def key(self) -> Key:
        """What its points are found by: the series, or the case and the machine."""
        return (self.case_id, self.machine_id) if self.series_id is None else self.series_id


class Looked(Struct, frozen=True, omit_defaults=True):
    """The result of the last close look at a series.

    ``decided`` is settled; ``first_run`` is the run of the first point that is still needed. ``level`` and ``noise``, of
    logarithms if ``is_log``, are what new points are compared with while nothing is fresh (``is_quiet``). ``pending``
    points came since then, all of them unremarkable; ``drift`` is the sum of their deviations in units of the noise.
    """

    decided: Decided = Decided()
    first_run: int | None = None
    level: float = 0.0
    noise: float = 0.0
    is_log: bool = False
    is_quiet: bool = False
    is_constant: bool = False
    pending: int = 0
    drift: float = 0.0


class Detection(Struct, frozen=True):
    """What the store has of a watched series; ``id`` is 0 if it is new, ``points`` is STALE if it is looked at as a whole."""

    watched: Watched
    id: int = 0
    points: int = 0
    newest_run: int | None = None
    looked: Looked = Looked()


def kind_of(metric: str, unit: str, better: str) -> Kind:
    """Return what the values of a metric are.

    >>> kind_of("abs_latency", "ms", "lower").value, kind_of("graph_breaks", "breaks", "lower").value
    ('number', 'count')
    """
    if unit == SHARE:
        return Kind.PASS_RATE
    return Kind.COUNT if unit in _MEMORY or is_counted(metric, better) else Kind.NUMBER


def better_of(metric: str, better: str) -> str:
    """Return which direction of a metric is better: ``lower``, ``higher`` or ``equal``."""
    known = METRICS.get(metric)
    return known.better if known else better or "lower"


def encode_looked(looked: Looked) -> str:
    """Encode what is kept of a series."""
    return msgspec.json.encode(looked).decode()


def decode_looked(text: str) -> Looked:
    """Decode what is kept of a series; raise ValueError if the text is none."""
    try:
        return msgspec.json.decode(text, type=Looked)
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from None
