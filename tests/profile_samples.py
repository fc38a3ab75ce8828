"""Profiles as `torchstone run --probe instructions --profile` keeps them, in run files: before and after a change of the compiler.

`python tests/profile_samples.py FOLDER` writes run files and the pages they make, to look at.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

from stated_facts import with_facts
from torchstone.core.details.measurement_details import MeasurementDetails
from torchstone.core.records import Case, Measurement, Outcome, Run, Variant
from torchstone.core.run_file import encode_run
from torchstone.core.run_settings import environment_from

Json = dict[str, Any]
ENVIRONMENT: Json = {"versions": {"torch": "2.13.0"}, "software": {"python": {"version": "3.11.7"}}}
ATTACK = "</text></svg><script>alert(1)</script><img src=x onerror=alert(2)>"

FUNCTIONS = {
    "dynamo": {
        "libpython3.11.so.1.0": ["_PyEval_EvalFrameDefault", "PyObject_GetAttr", "_PyType_Lookup", "PyDict_GetItem", "gc_collect_main"],
        "libtorch_python.so": ["torch::dynamo::eval_frame", "THPVariable_getitem(_object*, _object*)"],
        "libc.so.6": ["malloc", "__memcpy_avx_unaligned_erms"],
    },
    "guards": {"libtorch_python.so": ["torch::dynamo::RootGuardManager::check_nopybind(_object*)", "LeafGuard::check"]},
    "aot_autograd": {
        "libpython3.11.so.1.0": ["_PyEval_EvalFrameDefault", "PyObject_Malloc"],
        "libtorch_cpu.so": ["c10::Dispatcher::callBoxed(c10::OperatorHandle const&, std::vector<c10::IValue>*)", "at::meta::add"],
    },
    "partitioner": {"libpython3.11.so.1.0": ["_PyEval_EvalFrameDefault", "set_add_entry"]},
    "inductor": {
        "libpython3.11.so.1.0": ["_PyEval_EvalFrameDefault", "unicode_concatenate", "PyObject_Hash", "_PyObject_GenericGetAttrWithDict"],
        "libc.so.6": ["malloc", "free", "__strlen_avx2"],
    },
    "other": {"libpython3.11.so.1.0": ["_PyEval_EvalFrameDefault"]},
}  # fmt: skip
PHASE_COSTS = {"dynamo": 900e6, "guards": 60e6, "aot_autograd": 400e6, "partitioner": 90e6, "inductor": 1400e6, "other": 30e6}  # fmt: skip


def profile(
    functions: list[list[Any]],
    counter: str = "simulated",
    unit: str = "instructions",
    **further: Any,  # noqa: ANN401
) -> Json:
    """A profile whose phases and total are what its functions add up to."""
    phases: dict[str, Any] = {}
    for phase, _, _, cost in functions:
        phases[phase] = phases.get(phase, 0) + cost
    found: Json = {"counter": counter, "unit": unit, "total": sum(phases.values()), "phases": phases}
    return found | {"functions": functions} | further


def stacks(tree: list[Any]) -> Json:
    return {"unit": "calls", "total": 0, "tree": tree}


def sample_profile(*, changed: bool, counter: str = "simulated") -> Json:
    """A compilation; ``changed`` has a pass more in inductor, a cheaper dynamo, and guards without one function."""
    chance = random.Random(3)  # noqa: S311
    costs: list[list[Any]] = []
    for phase, libraries in FUNCTIONS.items():
        names = [(library, name) for library, listed in libraries.items() for name in listed]
        weights = [chance.paretovariate(0.9) for _ in names]
        for (library, name), weight in zip(names, weights, strict=True):
            cost = int(PHASE_COSTS[phase] * weight / sum(weights))
            if changed and phase == "inductor":
                cost = int(cost * 1.08)
            if changed and (phase, name) == ("dynamo", "_PyType_Lookup"):
                cost = int(cost * 0.7)
            if changed and name == "LeafGuard::check":
                continue
            costs.append([phase, library, name, cost])
    if changed:
        costs.append(["inductor", "libpython3.11.so.1.0", "PySet_Contains", 21_000_000])
        costs.append(["guards", "libtorch_python.so", ATTACK, 9_000_000])
    costs.sort(key=lambda cost: -cost[3])
    costs.append(["other", "", "(rest)", 123_456])
    if counter == "python":
        return profile([[*cost[:3], cost[3] // 10_000] for cost in costs], "python", "calls")
    return profile(costs, stacks=stacks(_sample_tree(changed=changed)))


def _sample_tree(*, changed: bool) -> list[Any]:
    """Call stacks: a deep way in, then the parts of the compiler, each a bush of calls."""
    dynamo = _bush(random.Random(11), "torch/_dynamo/symbolic_convert.py", 9, 5000)  # noqa: S311
    inductor = _bush(random.Random(12), "torch/_inductor/graph.py", 9, 9000)  # noqa: S311
    if changed:
        walk = ["is_noop (torch/_inductor/fx_passes/walk.py)", 1800, []]
        inductor[2].append(
            [
                "run_extra_pass (torch/_inductor/fx_passes/walk.py)",
                40,
                [walk, ["users (torch/fx/node.py)", 900, []]],
            ]
        )
        dynamo[2].pop()
        _scale(dynamo, 0.97)
    aot = ["aot_dispatch_base (torch/_functorch/aot_autograd.py)", 800, [inductor]]
    backend = ["call_user_compiler (torch/_dynamo/output_graph.py)", 3, [aot]]
    tree = ["compile_inner (torch/_dynamo/convert_frame.py)", 12, [dynamo, backend]]
    for name in ("_compile", "__call__", "catch_errors", "compile_wrapper", "_fn", "inner", "wrapped", "run"):
        tree = [f"{name} (torch/_dynamo/eval_frame.py)", 1, [tree]]
    return ["work", 1, [tree]]


def _bush(chance: random.Random, file: str, depth: int, calls: int) -> list[Any]:
    name = f"{chance.choice(['visit', 'step', 'lower', 'emit', 'wrap', 'call', 'load'])}_{chance.randrange(90)} ({file})"
    if depth == 0 or calls < 8:
        return [name, calls, []]
    parts, left = [], calls
    for _ in range(chance.randrange(1, 5)):
        part = int(left * chance.uniform(0.2, 0.8))
        parts.append(_bush(chance, file, depth - 1, part))
        left -= part
    return [name, left, parts]


def _scale(tree: list[Any], factor: float) -> None:
    tree[1] = int(tree[1] * factor)
    for below in tree[2]:
        _scale(below, factor)


def case_of(name: str, **axes: Any) -> Case:  # noqa: ANN401
    return Case(name, "instructions", "compile_time", Variant("cpu", "inductor", **axes))


def outcome_of(case: Case, stated: object, status: str = "pass") -> Outcome:
    """An outcome with this profile, and the count that goes with it."""
    extra: Json = {"category": "add_loop", "description": "adds in a loop"}
    total = stated.get("total") if isinstance(stated, dict) else None
    measured: tuple[Measurement, ...] = ()
    if isinstance(total, int) and total:
        measured = (
            Measurement(
                "compile_time_instruction_count", (total, total + 1), MeasurementDetails(counter="simulated")
            ),
        )
    facts = extra if stated is None else extra | {"profile": stated}
    return with_facts(Outcome(case, status, measured), facts)


def run_of(*outcomes: Outcome, name: str = "run", environment: Json = ENVIRONMENT) -> Run:
    return Run(
        name, tuple(outcome.case for outcome in outcomes), outcomes, environment=environment_from(environment)
    )


def sample_run(*, changed: bool) -> Run:
    """Three cases: a deep one, one by the python counter, and one whose count stays the same."""
    return run_of(
        outcome_of(case_of("add_loop_inductor"), sample_profile(changed=changed)),
        outcome_of(case_of("mm_loop"), sample_profile(changed=changed, counter="python")),
        outcome_of(case_of("symint_sum"), sample_profile(changed=False)),
        outcome_of(case_of("update_hint"), None),
        name="new" if changed else "base",
    )


def main(folder: Path) -> None:
    """Write the samples, and the pages of `explain` and `report`."""
    from torchstone.cli.main import run  # noqa: PLC0415

    folder.mkdir(parents=True, exist_ok=True)
    files = [str(folder / name) for name in ("base.jsonl", "new.jsonl")]
    for changed, path in zip((False, True), files, strict=True):
        Path(path).write_text(encode_run(sample_run(changed=changed)), encoding="utf-8")
    run(["explain", *files, "add_loop_inductor", "-o", str(folder / "explain.html")])
    run(["explain", *files, "-o", str(folder / "all.html")])
    run(["report", files[1], "--baseline", files[0], "-o", str(folder / "report.html")])
    run(["report", files[1], "-o", str(folder / "plain.html")])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
