"""Runs with rounds of scaling, as small as tests of files need them."""

from __future__ import annotations

from typing import Any

from torchstone.core.details.measurement_details import MeasurementDetails
from torchstone.core.records import Case, Failure, Measurement, Outcome, Run, Variant
from torchstone.core.run_settings import environment_from, settings_from

ENVIRONMENT = {"software": {"torch": {"version": "2.13.0+cu130", "cuda": "13.0"}}}
SETTINGS = {"sources": {"scaling": {"kind": "suite", "name": "scaling"}}, "threads": 1}


def round_case(
    benchmark: str = "mlp",
    ranks: int = 1,
    strategy: str = "ddp",
    *,
    bucket: str = "25",
    collective: str = "gloo",
    **changes: Any,  # noqa: ANN401  (a suite, or axes of a variant)
) -> Case:
    """The case of a round."""
    further = [("ranks", str(ranks)), ("strategy", strategy)]
    if strategy != "none":
        further.append(("collective", collective))
    if strategy == "ddp":
        further.append(("bucket_mb", bucket))
    suite = changes.pop("suite", "scaling")
    axes: dict[str, Any] = {
        "device": "cpu",
        "backend": "none",
        "mode": "training",
        "dtype": "float32",
        "batch_size": 32,
    }
    return Case(benchmark, "scaling", suite, Variant(**axes | changes, further=tuple(sorted(further))))


def round_of(case: Case, seconds: float = 0.1) -> Outcome:
    """A round that went well: two samples a rank."""
    ranks = int(dict(case.variant.further)["ranks"])
    samples = tuple(round(seconds * (1 + sample / 100), 6) for sample in range(2 * ranks))
    size = case.variant.batch_size or 1
    return Outcome(
        case,
        "pass",
        (
            Measurement("iteration_time", samples, MeasurementDetails(ranks=(2,) * ranks)),
            Measurement("iteration_time_p95", (max(samples),)),
            Measurement("examples_per_second", (size * ranks / seconds,)),
            Measurement("scaling_efficiency", (100.0,)),
            Measurement("peak_memory", (0.5,) * ranks),
        ),
    )


def failed_round(case: Case, status: str = "timeout") -> Outcome:
    """A round that did not end well."""
    return Outcome(case, status, failure=Failure("run", "rank 1 on b: no answer"))


def scaling_run(*outcomes: Outcome) -> Run:
    """A run that torchstone measured."""
    plan = tuple(outcome.case for outcome in outcomes)
    return Run(
        "r", plan, outcomes, environment=environment_from(ENVIRONMENT), settings=settings_from(SETTINGS)
    )


def sweep(benchmark: str = "mlp", seconds: float = 0.1, **changes: Any) -> list[Outcome]:  # noqa: ANN401  (as above)
    """The rounds of one benchmark: without DDP, and with it on one, two and four ranks."""
    alone = round_of(round_case(benchmark, 1, "none", **changes), seconds)
    return [alone, *(round_of(round_case(benchmark, ranks, **changes), seconds) for ranks in (1, 2, 4))]
