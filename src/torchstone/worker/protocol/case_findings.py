"""What a worker finds out about a case besides its measurements: parts of its last reply."""

from __future__ import annotations

from dataclasses import dataclass

from torchstone.worker.protocol.codec import Count


@dataclass(frozen=True)
class CodeFound:
    """Origin of a worker's code: modules from outside the worktree, and imported files of the worktree."""

    from_elsewhere: tuple[str, ...]
    imported: tuple[str, ...]


@dataclass(frozen=True)
class GraphBreakFound:
    """One reason for graph breaks, with its count and place."""

    reason: str
    count: Count
    place: str
    source: str
    fallback: bool = False


@dataclass(frozen=True)
class AccuracyFound:
    """Method of comparing outputs; see ``core.details.outcome_details.AccuracyDetails``."""

    tolerance: float | None = None
    cosine: bool | None = None
    rebuilt: str = ""
    reference: str = ""
    why_cosine: str = ""


@dataclass(frozen=True)
class TorchSettingsFound:
    """Settings of torch that a case was measured under; see ``core.details.outcome_details.TorchSettingsDetails``."""

    tf32: bool | None = None
    half_reductions: bool | None = None
    cuda_graphs: bool | None = None
    labels: bool | None = None
    attention: str = ""
