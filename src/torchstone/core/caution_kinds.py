"""The closed list of cautions, with their wording.

Standard library only: workers give cautions by kind.

A wording is a template: ``{pairs}`` is a number or a name of the caution, with an optional format after a colon. ``:count row`` is a
count with its noun: ``1 row``, ``2 rows``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from enum import StrEnum

FIELD = r"\{(\w+)(?::([^}]*))?\}"


class CautionKind(StrEnum):
    """The kinds of cautions."""

    # About an outcome: kept in the run file.
    RECORDED = "recorded"
    NOT_MEASURED = "not_measured"
    LEFT_OUT = "left_out"
    RECOMPILED_WHILE_TIMED = "recompiled_while_timed"
    INPUTS_CHANGED = "inputs_changed"
    BUSY_MACHINE = "busy_machine"
    BUSY_WHILE_COMPILING = "busy_while_compiling"
    COMPILES_ITSELF = "compiles_itself"
    NO_PEAK_MEMORY = "no_peak_memory"
    FEW_PAIRS = "few_pairs"
    HOST_BOUND = "host_bound"
    NO_DEVICE_TIME = "no_device_time"
    NOTHING_ON_DEVICE = "nothing_on_device"
    DEVICE_THROTTLED = "device_throttled"
    DEVICE_SHARED = "device_shared"
    DEVICE_STATE_UNKNOWN = "device_state_unknown"
    NO_REFERENCE = "no_reference"
    PASSED_DESPITE_MISMATCH = "passed_despite_mismatch"
    OUTPUTS_NOT_SAVED = "outputs_not_saved"
    LOOK_UPS_NOT_LISTED = "look_ups_not_listed"
    THREADS_NOT_COUNTED = "threads_not_counted"
    PROCESSES_NOT_COUNTED = "processes_not_counted"
    UNUSED_PARAMETERS = "unused_parameters"
    NO_COMMUNICATION_PROFILE = "no_communication_profile"
    NO_TIME_PROFILE = "no_time_profile"
    TRIAL_FAILED = "trial_failed"
    TRIALS_DISAGREE = "trials_disagree"
    REPORTED_IN_WARM_UP = "reported_in_warm_up"
    OWN_METRICS_NOT_KEPT = "own_metrics_not_kept"

    # About files, the gate, comparisons and the start of a run.
    LAST_LINE_CUT_OFF = "last_line_cut_off"
    RUN_UNFINISHED = "run_unfinished"
    LAST_LINE_WITHOUT_END = "last_line_without_end"
    CAUTIONS_NOT_EXPORTED = "cautions_not_exported"
    SAMPLES_SUMMED_UP = "samples_summed_up"
    ZERO_TIMES = "zero_times"
    NO_RULE = "no_rule"
    UNKNOWN_STATUS = "unknown_status"
    DTYPES_NOT_MEASURED = "dtypes_not_measured"
    NOT_AVAILABLE_HERE = "not_available_here"
    MISSING_ROWS_IGNORED = "missing_rows_ignored"
    ADOPTED_DISTURBED = "adopted_disturbed"
    RECORDED_CRITERIA = "recorded_criteria"
    ENVIRONMENTS_DIFFER = "environments_differ"
    ENVIRONMENTS_DIFFER_ANYWAY = "environments_differ_anyway"
    HIDDEN_VARIABLE = "hidden_variable"
    HIDDEN_VARIABLES = "hidden_variables"
    HIDDEN_VARIABLES_OF_FILES = "hidden_variables_of_files"
    COUNTER_NOT_STATED = "counter_not_stated"
    COUNTER_STATED_BY_OTHER = "counter_stated_by_other"
    COMPARED_WITH_ITSELF = "compared_with_itself"
    ONLY_IN_NEW = "only_in_new"
    PROBES_ONLY_IN_NEW = "probes_only_in_new"
    UPSTREAM_SKIPS = "upstream_skips"
    NEAR_EDGE = "near_edge"
    DRIFT = "drift"
    MORE_NEAR_EDGE = "more_near_edge"
    MORE_DRIFTED = "more_drifted"
    MORE_UPSTREAM_SKIPS = "more_upstream_skips"
    REMOVAL_WITHOUT_USE = "removal_without_use"
    NOT_RESULTS = "not_results"
    EXPECTED_VALUES = "expected_values"
    COPY_OF_RUN = "copy_of_run"
    PAST_ELSEWHERE = "past_elsewhere"
    NO_COMMON_PAST = "no_common_past"
    PROFILE_NOT_SHOWN = "profile_not_shown"
    EMPTY_SHARD = "empty_shard"
    BATCH_SIZE_SKIPPED = "batch_size_skipped"
    PRESET_OVERRIDDEN = "preset_overridden"
    SETTINGS_NOT_USED = "settings_not_used"
    LABELS_NOT_TAKEN = "labels_not_taken"
    RANKS_SHARE_CORES = "ranks_share_cores"
    WEAK_COUNTER = "weak_counter"
    WORKERS_SPAWNED = "workers_spawned"
    STARTING_WORKERS = "starting_workers"
    ONLY_ON_ONE_SIDE = "only_on_one_side"
    SIDES_ARE_EQUAL = "sides_are_equal"
    NO_FILE_DIFFERS = "no_file_differs"
    CHANGED_FILE_NOT_IMPORTED = "changed_file_not_imported"
    CHANGED_FILES_NOT_IMPORTED = "changed_files_not_imported"

    # About the history.
    UNKNOWN_REVISIONS = "unknown_revisions"
    ANOTHER_HISTORY = "another_history"
    CLOCK_AHEAD = "clock_ahead"


def split_values(values: Mapping[str, str | float]) -> tuple[dict[str, float], dict[str, str]]:
    """Split the values of a caution into numbers and names."""
    numbers = {name: value for name, value in values.items() if not isinstance(value, str)}
    names = {name: value for name, value in values.items() if isinstance(value, str)}
    return numbers, names


def check_values(kind: CautionKind, given: Set[str]) -> None:
    """Raise ValueError unless a caution of this kind has exactly these numbers and names; optional ones may be missing."""
    wanted = {name for name, _ in re.findall(FIELD, WORDING[kind].text)}
    if wanted != given - {*WORDING[kind].optional}:
        raise ValueError(f"a caution of kind {kind.value} has {', '.join(sorted(wanted)) or 'nothing'}")


class Wording:
    """The sentence and the advice of a kind of caution.

    ``details`` are names that may differ between cautions of the same meaning; those of the first are shown.
    ``optional`` are numbers that it may have, but does not say. ``at_most_one`` is a number, and the advice to give if it is not above 1.
    """

    def __init__(
        self,
        text: str,
        advice: str = "",
        details: tuple[str, ...] = (),
        optional: tuple[str, ...] = (),
        at_most_one: tuple[str, str] = ("", ""),
    ) -> None:
        self.text = text
        self.advice = advice
        self.details = details
        self.optional = optional
        self.at_most_one = at_most_one


_K = CautionKind
WORDING = {
    _K.RECORDED: Wording("{text}"),
    _K.NOT_MEASURED: Wording("{metric} could not be measured"),
    _K.LEFT_OUT: Wording("{metric} is left out: {why}", details=("why",)),
    _K.RECOMPILED_WHILE_TIMED: Wording(
        "it was recompiled while it was timed, so some samples include compile time"
    ),
    _K.INPUTS_CHANGED: Wording(
        "the model modifies its inputs, so calls were not all timed on the same values"
    ),
    _K.BUSY_MACHINE: Wording(
        "other work took the processor away {rate:,.0f} times a second, for {share:.0%} of the time it was timed: times are "
        "longer than on a quiet machine, the speedup may be off",
        "stop that work, or use fewer threads",
        optional=("threads",),
        at_most_one=("threads", "stop that work"),
    ),
    _K.BUSY_WHILE_COMPILING: Wording(
        "other work took the processor away for {share:.0%} of the time it was compiled: compile times are longer than on a quiet machine",
        "stop that work",
    ),
    _K.COMPILES_ITSELF: Wording("the model compiles parts of itself, so eager is not fully eager"),
    _K.NO_PEAK_MEMORY: Wording("peak memory cannot be read for {device} on this system"),
    _K.FEW_PAIRS: Wording("only {pairs} pairs of calls were timed: too few for an interval"),
    _K.HOST_BOUND: Wording(
        "the {side} call is host-bound: submitting takes {submit:.3g} ms, the device is busy for {busy:.3g} ms and idle for {idle:.0%} of "
        "the call, so its wall time measures the host",
        "judge it by device_latency and device_speedup; CUDA graphs (--compile-mode reduce-overhead) or a larger batch keep the device busy",
    ),
    _K.NO_DEVICE_TIME: Wording("device time is not available: {why}", details=("why",)),
    _K.NOTHING_ON_DEVICE: Wording(
        "{why}, so it has no device time", "check that the model and its inputs are on the device"
    ),
    _K.DEVICE_THROTTLED: Wording(
        "the device was throttled while it was timed: {reasons}",
        "improve its cooling and power supply: 'torchstone doctor --device' shows its state",
        details=("reasons",),
        optional=("clock", "clock_max"),
    ),
    _K.DEVICE_SHARED: Wording(
        "other processes were on the device while it was timed: {processes}",
        "wait until they end, or select another device",
        details=("processes",),
    ),
    _K.DEVICE_STATE_UNKNOWN: Wording(
        "the state of the device is not known: {why}",
        "install nvidia-ml-py, or nvidia-smi, rocm-smi or xpu-smi",
        details=("why",),
    ),
    _K.NO_REFERENCE: Wording("compared by cosine similarity only: no float64 reference ({why})"),
    _K.PASSED_DESPITE_MISMATCH: Wording(
        "passed although {mismatch} (in {wrong} of {runs:count run}): {why}", details=("mismatch",)
    ),
    _K.OUTPUTS_NOT_SAVED: Wording("the outputs could not be saved: {problem}", details=("problem",)),
    _K.LOOK_UPS_NOT_LISTED: Wording("{more} more cache lookups are not listed"),
    _K.THREADS_NOT_COUNTED: Wording("it started threads, whose work is not counted"),
    _K.PROCESSES_NOT_COUNTED: Wording("it started processes, whose work is not counted"),
    _K.UNUSED_PARAMETERS: Wording(
        "{parameters} parameters get no gradient, so DDP searches for them in every iteration"
    ),
    _K.NO_COMMUNICATION_PROFILE: Wording("torch's profiler does not show communication: {why}"),
    _K.NO_TIME_PROFILE: Wording("the time profile was not taken: {why}"),
    _K.TRIAL_FAILED: Wording(
        "the last of {trials} trials ended with {status}; the numbers are from the trials before it"
    ),
    _K.TRIALS_DISAGREE: Wording(
        "its trials disagree: {statuses}", details=("statuses",), optional=("failed", "trials")
    ),
    _K.REPORTED_IN_WARM_UP: Wording(
        "{metric} was reported during the warm-up only, which does not count",
        "report it in every call",
    ),
    _K.OWN_METRICS_NOT_KEPT: Wording(
        "the {probe} probe does not keep the benchmark's own metrics", "the performance probe does"
    ),
    _K.LAST_LINE_CUT_OFF: Wording("{path}: the last line is truncated and was ignored"),
    _K.RUN_UNFINISHED: Wording(
        "{path}: the run did not finish: {left} of {planned} planned cases have no outcome"
    ),
    _K.LAST_LINE_WITHOUT_END: Wording("{path}: the last line is incomplete: was the file truncated?"),
    _K.CAUTIONS_NOT_EXPORTED: Wording(
        "the format {format} does not hold the cautions of {cases:count case}: see them with 'torchstone report'"
    ),
    _K.SAMPLES_SUMMED_UP: Wording(
        "{path}: {summed_up} of {cases:count case} have a single number instead of samples, so their variation is unknown; {how_to_save}"
    ),
    _K.ZERO_TIMES: Wording(
        "{path}: times of 0 in {zeros} of {cases:count case}: too short for the tool that measured them"
    ),
    _K.NO_RULE: Wording(
        "no rule for '{metric}' ({rows:count row}): add --rule '{metric}=ratio_ceiling:1.05', or '{metric}=ignore'"
    ),
    _K.UNKNOWN_STATUS: Wording("unknown status '{status}': treated as a failure"),
    _K.DTYPES_NOT_MEASURED: Wording("no result has the dtype {dtypes}, for which the baseline has a column"),
    _K.NOT_AVAILABLE_HERE: Wording("not available here, and no baseline expects it: {cases}"),
    _K.MISSING_ROWS_IGNORED: Wording(
        "{rows:count expected row} without a result: ignored by this policy, as by the original script"
    ),
    _K.ADOPTED_DISTURBED: Wording(
        "disturbed while measured: {values:count value} to be written ({cases}), because {what}; later results would be judged by them",
        "measure again on a quiet machine before accepting",
    ),
    _K.RECORDED_CRITERIA: Wording(
        "{rows:count row} of 'torchstone ab' judged by the criteria that it used: margin {margin:.4g}%, alpha {alpha:.4g}%, each case by itself",
        "a rule of yours, or --margin or --alpha of compare, takes precedence",
    ),
    _K.ENVIRONMENTS_DIFFER: Wording(
        "{results} and {baseline} come from different environments ({why}): times and memory were not compared; --cross-environment compares them anyway"
    ),
    _K.ENVIRONMENTS_DIFFER_ANYWAY: Wording(
        "{results} and {baseline} come from different environments ({why}): compared anyway (--cross-environment)"
    ),
    _K.HIDDEN_VARIABLE: Wording(
        "{variables} is set in {where} environments, but its value is hidden: it may differ"
    ),
    _K.HIDDEN_VARIABLES: Wording(
        "{variables} are set in {where} environments, but their values are hidden: they may differ"
    ),
    _K.HIDDEN_VARIABLES_OF_FILES: Wording("{results} and {baseline}: {what}"),
    _K.COUNTER_NOT_STATED: Wording(
        "{path} does not say which counter its counts are from; these are from the {counter} one"
    ),
    _K.COUNTER_STATED_BY_OTHER: Wording(
        "{path} does not say which counter its counts are from; those of {other} are from the {counter} one"
    ),
    _K.COMPARED_WITH_ITSELF: Wording("{new} is the same run as {base}: it is compared with itself"),
    _K.ONLY_IN_NEW: Wording("only NEW has these metrics, so they are not compared: {metrics}"),
    _K.PROBES_ONLY_IN_NEW: Wording(
        "only NEW has results of these probes, so they are not compared: {probes}"
    ),
    _K.UPSTREAM_SKIPS: Wording(
        "{case}: upstream {versions} compiles it in training without comparing anything (pass_due_to_skip), because eager differs from run to run{but}: are results and baseline of one version?"
    ),
    _K.NEAR_EDGE: Wording(
        "near the limit: {row} is {found}, expected {wanted} ({change}): {used:.0f}% of the allowed change; the limit is {limit}"
    ),
    _K.DRIFT: Wording(
        "drift: {row} has moved by {change} since {since}, for the {way}, in small steps over {runs} runs; its margin is {margin:.4g}%. To see it: {command}"
    ),
    _K.MORE_NEAR_EDGE: Wording("{rows:count more row} that passed near the limit"),
    _K.MORE_DRIFTED: Wording("{rows:count more row} that drifted"),
    _K.MORE_UPSTREAM_SKIPS: Wording("{rows:count more row} of models whose eager results differ"),
    _K.REMOVAL_WITHOUT_USE: Wording(
        "{place}: not_flaky {case} removes nothing: the flaky list {version} has no such model{scope}"
    ),
    _K.NOT_RESULTS: Wording("{path} is not a result file, and is ignored"),
    _K.EXPECTED_VALUES: Wording("{path} contains expected values, not results, and is ignored"),
    _K.COPY_OF_RUN: Wording("{path} is a copy of {same}, and is counted once"),
    _K.PAST_ELSEWHERE: Wording("from another environment ({why}), so {what}not used: {paths}"),
    _K.NO_COMMON_PAST: Wording("--history has none of the judged cases, so no drift can be found"),
    _K.PROFILE_NOT_SHOWN: Wording("the profile of {case} is not shown: {why}"),
    _K.EMPTY_SHARD: Wording("shard {shard}/{shards} has no cases: all are in other shards"),
    _K.BATCH_SIZE_SKIPPED: Wording(
        "--batch-size skips {benchmarks:count benchmark} without a parameter of that name: {names}"
    ),
    _K.PRESET_OVERRIDDEN: Wording("the preset {preset} is not used as it is: {options} goes before it"),
    _K.SETTINGS_NOT_USED: Wording("{names} apply to GPUs only: these settings have no effect on {device}"),
    _K.LABELS_NOT_TAKEN: Wording(
        "{benchmarks:count benchmark} cannot be given labels in inference, and runs without: {names}"
    ),
    _K.RANKS_SHARE_CORES: Wording(
        "{ranks:count rank} share {cores:count core}: their times do not predict times on more cores"
    ),
    _K.WEAK_COUNTER: Wording(
        "the {counter} counter is used ({what}): 'torchstone doctor' says how to get a better one"
    ),
    _K.WORKERS_SPAWNED: Wording("workers are spawned instead of forked, which takes longer: {problem}"),
    _K.STARTING_WORKERS: Wording("{note}"),
    _K.ONLY_ON_ONE_SIDE: Wording("only {side} has {case}, so it is not compared"),
    _K.SIDES_ARE_EQUAL: Wording("A and B are identical: any change found is a false alarm"),
    _K.NO_FILE_DIFFERS: Wording("no file differs between A and B"),
    _K.CHANGED_FILE_NOT_IMPORTED: Wording(
        "the one file in which A and B differ was not imported ({files}): is the code under test installed elsewhere, "
        "or does it have to be built first?"
    ),
    _K.CHANGED_FILES_NOT_IMPORTED: Wording(
        "none of the {count:,} files in which A and B differ was imported ({files}): is the code under test installed "
        "elsewhere, or does it have to be built first?"
    ),
    _K.UNKNOWN_REVISIONS: Wording(
        "the repository does not know {revisions}: recorded behind all earlier revisions, in the order of recording"
    ),
    _K.ANOTHER_HISTORY: Wording(
        "the repository knows no commit of this store: it is another repository, or its history was rewritten. "
        "Its commits are recorded behind all earlier revisions"
    ),
    _K.CLOCK_AHEAD: Wording(
        "{path}: measured on {day}, which is in the future: the clock of that machine is wrong, or of this one"
    ),
}
"""The wording of each kind."""
