"""Notice that other work slowed compiling down: compile times are taken once, before anything is timed in turns."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from torchstone.core.caution_kinds import CautionKind
from torchstone.worker.machine.strain import StrainWatch
from torchstone.worker.probes.reply import Result


@contextlib.contextmanager
def noting_strain(result: Result) -> Iterator[None]:
    """Add a caution, at most once, if other work took the processor away in this block."""
    watch = StrainWatch()
    yield
    strain = watch.read()
    known = any(each.kind == CautionKind.BUSY_WHILE_COMPILING for each in result.cautions)
    if strain.is_disturbed and not known:
        result.caution(CautionKind.BUSY_WHILE_COMPILING, share=strain.share)
