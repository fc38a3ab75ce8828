"""One case of two sides: its pairs, weighed and judged after each, until it is decided or given up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import median

from msgspec import Struct, structs

from torchstone.analyze.evidence import TRIALS as INDEPENDENT
from torchstone.analyze.evidence import Comparison, Evidence
from torchstone.analyze.sequential import Effect, PairedTest, fewest_pairs
from torchstone.core.cautions import Caution, merged
from torchstone.core.details.measurement_details import MeasurementDetails
from torchstone.core.details.outcome_details import NO_OUTCOME_DETAILS, OutcomeDetails
from torchstone.core.records import Case, Measurement, Outcome, estimate
from torchstone.core.text.units import duration_text
from torchstone.core.vocabulary import COMPILE_SECONDS, DEVICE_COUNTERPARTS, NOT_AVAILABLE, PASSED, Verdict
from torchstone.gate.blocking_policy import Policy, comparison_policy
from torchstone.gate.criteria import Criteria
from torchstone.gate.defaults import DEFAULTS
from torchstone.gate.judge import judge
from torchstone.gate.judgement import Ruling
from torchstone.gate.trial_statuses import disagreement_caution, find_disagreement
from torchstone.gate.weigh import weigh
from torchstone.measure.ab.pair import PairResult

METRICS = {"latency": "abs_latency", "wall": "abs_latency", "compile": COMPILE_SECONDS}
"""What can be compared. A latency is the device's own time where both sides can tell it; ``wall`` never is."""
_TWO_CLOCKS = "the device's own time is known in some pairs only"


class AbSettings(Struct, frozen=True):
    """How two sides are compared: margin and significance level. ``budget`` are the seconds of one comparison of a self-test.

    ``fresh``: every worker compiles from scratch. ``slow_down`` is the share of extra work added to B's calls, to test whether
    it is detected.
    """

    metric: str = "latency"
    margin: float = DEFAULTS.pair_margin
    alpha: float = DEFAULTS.pair_alpha
    budget: float = 60.0
    fewest_pairs: int = 3
    seed: int = 0
    session: str = ""
    fresh: bool = False
    slow_down: float = 0.0

    @property
    def compiles_always(self) -> bool:
        """Return whether every worker compiles from scratch."""
        return self.fresh or self.metric == "compile"

    @property
    def least_pairs(self) -> int:
        """Return the number of pairs before which no verdict is possible."""
        return max(self.fewest_pairs, fewest_pairs(self.alpha))

    @property
    def criteria(self) -> Criteria:
        """Return the criteria of each case, on its own, because it is judged after every pair."""
        return Criteria(self.margin, self.alpha, better="lower")


class Contest:
    """One case and its pairs so far. ``planned`` is the case in the plan of each side.

    ``ruling`` is set, under the policy, when the case is decided or given up.
    """

    def __init__(
        self,
        case: Case,
        planned: tuple[Case, Case],
        number: int,
        settings: AbSettings,
        policy: Policy | None = None,
    ) -> None:
        self.case = case
        self.planned = planned
        self.number = number
        self.compile_seconds = 0.0  # of the first pair, if later ones use a cache
        self.ruling: Ruling | None = None
        self.is_decided_by_failure = False
        self._settings = settings
        self._policy = policy or comparison_policy()
        self._on_device = False  # whether the pairs so far have the device's own time
        self._weighed: Comparison | None = None
        self._trials: tuple[list[tuple[float, ...]], list[tuple[float, ...]]] = ([], [])
        self._last: tuple[Outcome, Outcome] | None = None
        self._failed: tuple[bool, bool] | None = None
        self._failures = 0  # in a row
        self._is_failure_final = False
        self._statuses = Counter[str](), Counter[str]()  # of all trials, by side
        self._durations: list[float] = []  # seconds of each pair
        self._cut_off = ""
        self._cautions: tuple[list[Caution], list[Caution]] = ([], [])

    @property
    def metric(self) -> str:
        """Return the metric that the pairs compare."""
        metric = METRICS[self._settings.metric]
        return DEVICE_COUNTERPARTS[metric] if self._on_device else metric

    @property
    def seconds(self) -> float:
        """Return the seconds that all pairs took."""
        return sum(self._durations)

    @property
    def pair_seconds(self) -> float | None:
        """Return how long another pair will probably take; None before the first."""
        if len(self._durations) > 1:
            return median(self._durations[1:])
        return max(0.1 * self.seconds, self.seconds - self.compile_seconds) if self._durations else None

    @property
    def pairs(self) -> int:
        """Return the number of measured pairs."""
        return len(self._trials[0])

    @property
    def verdict(self) -> Verdict | None:
        """Return the verdict; None while the case is undecided."""
        return self.ruling.verdict if self.ruling else None

    @property
    def reason(self) -> str:
        """Return the reason for the verdict, if the numbers do not show it."""
        return self.ruling.detail if self.ruling else ""

    @property
    def comparison(self) -> Comparison | None:
        """Return the comparison of all pairs so far; None before the first."""
        if self._weighed is None and self.pairs:
            base, new = (self._evidence(trials) for trials in self._trials)
            self._weighed = weigh(base, new, alpha=self._settings.alpha)
        return self._weighed

    def _evidence(self, trials: Sequence[tuple[float, ...]]) -> Evidence:
        values = tuple(estimate(self.metric, trial) for trial in trials)
        return Evidence(values, sum(map(len, trials)), INDEPENDENT, tuple(trials))

    @property
    def effect(self) -> Effect | None:
        """Return the ratio of B's cost to A's, with its confidence interval; None before the first pair."""
        found = self.comparison
        return Effect(found.ratio, found.low, found.high) if found else None

    def take(self, played: PairResult, seconds: float = 0.0) -> None:
        """Add a pair, which took this long, and judge the case."""
        if not self._durations and not self._settings.compiles_always:
            self.compile_seconds = max(map(_compile_seconds, played.outcomes))
        self._durations.append(seconds)
        self._last = played.outcomes
        for side, outcome in enumerate(played.outcomes):
            self._cautions[side].extend(outcome.cautions)
        failed = tuple(outcome.status != PASSED for outcome in played.outcomes)
        for statuses, outcome in zip(self._statuses, played.outcomes, strict=True):
            statuses[outcome.status] += 1
        is_other = self.pairs > 0 and played.on_device != self._on_device
        if any(failed) or not all(played.times) or is_other:
            self._take_failure((failed[0], failed[1]), played)
            return
        self._failed, self._failures = None, 0
        self._on_device = played.on_device
        for trials, times in zip(self._trials, played.times, strict=True):
            trials.append(times)
        self._weighed = None
        self._judge()

    def _judge(self) -> None:
        """Judge the pairs so far, if there are enough; an inconclusive case continues."""
        found = self.comparison
        if found is None or self.pairs < self._settings.least_pairs:
            return
        ruling = judge(found, self._settings.criteria, self._policy, self.metric)
        if ruling.verdict is not Verdict.INCONCLUSIVE:
            self.ruling = self._with_failures(ruling)

    def _with_failures(self, ruling: Ruling) -> Ruling:
        """Return the ruling, unless trials failed now and then: that decides nothing, or it is a regression, however fast B is."""
        found = find_disagreement(self.outcome(0, ""), self.outcome(1, "")) if self.pairs else None
        if found is None:
            return ruling
        self.is_decided_by_failure = True
        told = filter(None, (self._failure_counts(), found.detail, ruling.detail))
        return self._rule(found.verdict, "; ".join(told))

    def _failure_counts(self) -> str:
        """Say in how many pairs each side failed."""
        failed = [
            (name, counted.total() - counted[PASSED])
            for name, counted in zip("AB", self._statuses, strict=True)
        ]
        return "; ".join(
            f"{name} failed in {count} of {len(self._durations)} pairs" for name, count in failed if count
        )

    def _rule(self, verdict: Verdict, detail: str) -> Ruling:
        """Return a ruling that does not follow from the numbers."""
        return Ruling(verdict, self._policy.blocks(verdict), detail)

    def _take_failure(self, failed: tuple[bool, bool], played: PairResult) -> None:
        """Decide by a failure if it occurs twice in a row: the first may be the machine's fault. A timeout is not repeated."""
        is_final = failed == self._failed or any(
            each.status in {"timeout", NOT_AVAILABLE} for each in played.outcomes
        )
        self._failed = failed
        self._failures += 1
        if not is_final:
            return
        verdicts = {(False, True): Verdict.REGRESSION, (True, False): Verdict.IMPROVEMENT}
        verdict = verdicts.get(failed, Verdict.INCONCLUSIVE)
        why = _TWO_CLOCKS if any(played.times) else "no time could be measured"
        self.ruling = self._rule(verdict, _describe_failures(played.outcomes) or why)
        self.is_decided_by_failure = self._is_failure_final = any(failed)

    @property
    def is_in_doubt(self) -> bool:
        """Return whether the last pair failed for the first time, and must be repeated before that counts."""
        return self._failures == 1 and not self.verdict and not self._cut_off

    @property
    def is_begun(self) -> bool:
        """Return whether any pair was tried."""
        return self._last is not None

    def cut_off(self, seconds: float, phase: str) -> None:
        """Note that a pair was ended after this many seconds, because the budget was spent."""
        number = "the first pair" if not self._durations else f"pair {len(self._durations) + 1}"
        self._cut_off = f"{number}, which was cut off after {duration_text(seconds)} ({phase})"

    def give_up(self) -> None:
        """End the case as inconclusive: the budget is spent."""
        self.ruling = self._with_failures(self._rule(Verdict.INCONCLUSIVE, self._why_open()))

    def _why_open(self) -> str:
        failures = _describe_failures(self._last) if self._last else ""
        if failures:
            return f"{failures}; the pair before did not fail the same way"
        if not self.pairs:
            when = f"during {self._cut_off}" if self._cut_off else "before a pair was measured"
            return f"the budget was spent {when}"
        if self.pairs < (least := self._settings.least_pairs):
            done = "one pair" if self.pairs == 1 else f"{self.pairs} pairs"
            return f"the budget was spent after {done}, and at least {least} are needed to decide: {self._more_text(least - self.pairs)}"
        more = self.more_pairs()
        if more is None:
            return "too noisy to estimate how many pairs are needed"
        return f"{self._more_text(more)} would settle it"

    def _more_text(self, more: int) -> str:
        took = (self.pair_seconds or 0.0) * more
        return f"about {more} more {'pair' if more == 1 else 'pairs'}" + (
            f" ({duration_text(took)})" if took else ""
        )

    def more_pairs(self) -> int | None:
        """Estimate how many more pairs a decision needs; None if that cannot be estimated."""
        if self.pairs < self._settings.least_pairs:
            return self._settings.least_pairs - self.pairs
        test = PairedTest(self._settings.margin, self._settings.alpha)
        for log in self.comparison.logs if self.comparison else ():
            test.add(log)
        return test.more_pairs()

    @property
    def cautions(self) -> tuple[Caution, ...]:
        """Return the cautions of the workers of both sides."""
        return merged((*self._cautions[0], *self._cautions[1]))

    def cost(self, side: int) -> float | None:
        """Return the median cost of one side's trials; None before the first pair."""
        middles = sorted(estimate(self.metric, trial) for trial in self._trials[side])
        return middles[len(middles) // 2] if middles else None

    @property
    def could_measure(self) -> bool:
        """Return whether at least one side could be measured."""
        return (
            self.pairs > 0 or self.verdict in {Verdict.REGRESSION, Verdict.IMPROVEMENT} or self._last is None
        )

    def outcome(self, side: int, repro: str) -> Outcome:
        """Return the outcome of one side over all its trials."""
        last = self._last[side] if self._last else None
        measured = self._measurements(self._trials[side])
        if self.verdict and last and last.status != PASSED and (self._is_failure_final or not self.pairs):
            return structs.replace(last, case=self.case, repro=repro, measurements=measured)
        cautions = merged(self._cautions[side])
        if len(self._statuses[side]) > 1:
            cautions += (disagreement_caution(self._statuses[side]),)
        details = self._details(last)
        return Outcome(self.case, PASSED, measured, repro=repro, cautions=cautions, details=details)

    def _details(self, last: Outcome | None) -> OutcomeDetails:
        """Return what a side was measured under in its latest trial, and how long all pairs took."""
        latest = (last.details if last else None) or NO_OUTCOME_DETAILS
        return OutcomeDetails(
            duration=round(self.seconds, 3),
            torch=latest.torch,
            device=latest.device,
            device_state=latest.device_state,
        )

    def _measurements(self, trials: Sequence[tuple[float, ...]]) -> tuple[Measurement, ...]:
        """Return all samples of a side, with their trials and pairing."""
        if not trials:
            return ()
        samples = tuple(time for trial in trials for time in trial)
        stated = MeasurementDetails(trials=tuple(map(len, trials)), pairs=self._settings.session)
        return (Measurement(self.metric, samples, stated),)


def _compile_seconds(outcome: Outcome) -> float:
    phases = outcome.details.phases if outcome.details else None
    return phases.get("compile", 0.0) if phases else 0.0


def _describe_failures(outcomes: tuple[Outcome, Outcome]) -> str:
    """Describe which sides of a pair failed and why; empty if both passed."""
    named = zip("AB", outcomes, strict=True)
    return "; ".join(f"{name} failed: {_why(each)}" for name, each in named if each.status != PASSED)


def _why(outcome: Outcome) -> str:
    message = outcome.failure.message.strip().partition("\n")[0] if outcome.failure else ""
    return f"{outcome.status}: {message}" if message else outcome.status
