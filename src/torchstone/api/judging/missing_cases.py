"""Make the commands that measure the cases which results lack, or have too few trials of.

They repeat the axes of the row and the settings of the run.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from msgspec import structs

from torchstone.core.benchmark_source import BenchmarkSource
from torchstone.core.records import Case, Reading, Run
from torchstone.core.run_settings import Settings
from torchstone.core.text.safe_text import is_plain, join_words
from torchstone.core.vocabulary import Probe, Verdict
from torchstone.gate.judgement import Judgement, Row

_OPTIONS = {
    "device": "--device",
    "backend": "--backend",
    "mode": "--mode",
    "dtype": "--dtype",
    "dynamic": "--dynamic",
    "batch_size": "--batch-size",
    "size": "--size",
    "compile_mode": "--compile-mode",
    "ranks": "--ranks",
    "strategy": "--strategy",
    "bucket_mb": "--bucket-mb",
    "collective": "--collective-backend",
}
"""The option of ``torchstone run`` for each axis; any other axis is an option of torch.compile."""
_SHARED = ("device", "backend", "mode", "dtype", "dynamic", "size", "compile_mode")
"""Axes that a row without them shares with the other cases of the run; batch sizes differ between benchmarks."""


_SWITCHES = ("tf32", "half_reductions", "cuda_graphs", "labels")
"""Settings of a run that are on, off, or left to torch."""


def add_commands(judgement: Judgement, results: Sequence[Reading], baselines: Sequence[Reading]) -> Judgement:
    """Return the judgement with, for each case that is missing or needs more trials, the command that measures it, as far as it is known."""
    runs = [
        reading
        for reading in (*results, *baselines)
        if reading.kind == "run" and reading.run.settings.sources
    ]
    if not runs:
        return judgement
    rows = [
        _with_command(row, runs)
        if row.verdict is Verdict.MISSING
        else _with_trials(row, runs)
        if row.verdict is Verdict.INCONCLUSIVE and row.ruling.levels
        else row
        for row in judgement.rows
    ]
    return structs.replace(judgement, rows=rows)


def _with_command(row: Row, runs: Sequence[Reading]) -> Row:
    if row.new is not None:  # it has an outcome, and that has a command of its own
        return row
    command = next(filter(None, (find_command(row.case, reading) for reading in runs)), "")
    return structs.replace(row, remarks=structs.replace(row.remarks, measure=command))


def _with_trials(row: Row, runs: Sequence[Reading]) -> Row:
    """Return an undecided row with the command that measures it; how many trials it takes is known when the row is shown."""
    words = next(filter(None, (run_words(row.case, reading.run) for reading in runs)), None)
    if words is None:
        return row
    return structs.replace(row, remarks=structs.replace(row.remarks, measure=join_words(words)))


def find_command(case: Case, reading: Reading) -> str:
    """Return the command that measures a case like those of a run file; empty if the file does not tell.

    A case of the plan is measured with all settings of the run; another one by ``run``, with its own axes, and otherwise
    those that all cases of its probe share.
    """
    run = reading.run
    if case in run.plan:
        return join_words(("torchstone", "repro", reading.path, case.id))
    words = run_words(case, run)
    if words and run.settings.trials:
        words += ["--trials", str(run.settings.trials)]
    return join_words(words)


def run_words(case: Case, run: Run) -> list[str]:
    """Return the words of a ``run`` command for a case; none if it is not known what to run."""
    targets = _targets(case, run)
    if not targets or not is_plain(case.benchmark):
        return []
    words = ["torchstone", "run", *targets, *_option("--only", case.benchmark)]
    words += _option("--probe", case.probe) if case.probe else []
    for axis, value in _axes(case, run).items():
        words += _axis_option(axis, value)
    return [*words, *_chosen_options(run.settings), *_shared_options(run.settings)]


def _chosen_options(settings: Settings) -> list[str]:
    """Return the preset of a run, and the settings of torch that it chose beside the preset or without one."""
    words = _option("--preset", settings.preset) if settings.preset else []
    for field in _SWITCHES:
        flag, value = f"--{field.replace('_', '-')}", getattr(settings, field)
        if value is not None and (not settings.preset or flag in settings.overrides):
            words += [flag, "on" if value else "off"]
    return words


def _shared_options(settings: Settings) -> list[str]:
    """Return the threads, workers and cache of a run, which decide whether results can be compared with its own.

    Threads that a preset chose are repeated: they do no harm, and those chosen beside a preset that sets none are no override.
    """
    values = {
        "--threads": (str(settings.threads or ""), ""),
        "--start": (settings.start, "auto"),
        "--cache": (settings.cache, "cold"),
    }
    return [word for flag, (value, usual) in values.items() if value != usual for word in (flag, value)]


def _axes(case: Case, run: Run) -> dict[str, str]:
    """Return the axes of a case, with those that all cases of its probe share where it does not state them."""
    others = [each.variant.axes() for each in run.plan if case.probe in {"", each.probe}]
    shared = {
        axis: others[0][axis]
        for axis in _SHARED
        if others and axis in others[0] and all(axes.get(axis) == others[0][axis] for axes in others)
    }
    if case.probe == Probe.INSTRUCTIONS:
        shared = {axis: value for axis, value in shared.items() if axis == "device"}
    axes = shared | case.variant.axes()
    if case.probe == Probe.SCALING:
        axes.pop("mode", "")  # rounds always train
    return axes


def _axis_option(axis: str, value: str) -> list[str]:
    if axis == "fullgraph":
        return ["--fullgraph"] if value == "true" else []
    return _option(_OPTIONS[axis], value) if axis in _OPTIONS else _option("--option", f"{axis}={value}")


def _option(flag: str, value: str) -> list[str]:
    """Return an option with its value, which must not read as another option."""
    return [f"{flag}={value}"] if value.startswith("-") else [flag, value]


def _targets(case: Case, run: Run) -> list[str]:
    """Return what to measure: the suite or file of the case, or all of the run if the row does not say which."""
    sources = run.settings.sources
    if case.suite and case.suite not in sources:
        return []
    chosen = [sources[case.suite]] if case.suite else [*sources.values()]
    targets = [_target(source) for source in chosen]
    return targets if all(targets) else []


def _target(source: BenchmarkSource) -> str:
    """Return a suite's name or a file's path; empty for a file outside the current folder: a run file may name any."""
    if not source.is_file:
        return source.name if re.fullmatch(r"\w[\w-]*", source.name) else ""
    here, place = os.getcwd(), os.path.realpath(source.path)
    if not source.path or not is_plain(place) or os.path.commonpath((here, place)) != here:
        return ""
    return os.path.relpath(place, here) if os.path.isfile(place) else ""
