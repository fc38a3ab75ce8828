"""The suite of what the compiler costs: every benchmark runs, compiles what it says, and leaves torch as it was."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest
import torch
import torch._export.config
import torch._functorch.config
import torch._inductor.config
import torch.fx.config
import torch.fx.experimental._config
from suite_steps import LIBRARY_WARNINGS
from torch._dynamo.utils import compilation_time_metrics, counters

from torchstone.define.counted import COUNTS, Counted
from torchstone.suites import compile_time

pytestmark = [
    *LIBRARY_WARNINGS,
    pytest.mark.filterwarnings(
        "ignore:DTensor random operators may not have complete support on cpu:UserWarning"
    ),
]

ON_CPU = {
    "compile": [
        "add_loop_eager",
        "add_loop_eager_dynamic",
        "add_loop_inductor",
        "aotdispatcher_inference_nosubclass_cpu",
        "aotdispatcher_inference_subclass_cpu",
        "aotdispatcher_partitioner_cpu",
        "aotdispatcher_partitioner_cpu2",
        "aotdispatcher_training_nosubclass_cpu",
        "aotdispatcher_training_subclass_cpu",
        "basic_InlineMod_eager",
        "basic_NestedModule_eager",
        "basic_modules_ListOfLinears_eager",
        "basic_modules_ListOfLinears_inductor",
        "deep_nested_module_cpu",
        "diffusion_dit_full_inductor",
        "diffusion_dit_hierarchical_dynamic",
        "diffusion_dit_hierarchical_inductor",
        "diffusion_dit_regional_inductor",
        "float_args",
        "symint_sum",
        "symint_sum_loop",
        "update_hint_regression",
    ],
    "all": [
        "disable_overhead",
        "import_time_torch__dynamo",
        "import_time_torch__inductor",
        "import_time_triton",
        "nn_module_guard_eval",
        "nn_module_guard_eval_dynamic",
        "runtime_overhead_eager_cpu",
        "sum_floordiv_regression",
        "unbind_split_flip_cat_iter40_batch128",
    ],
}
ON_GPU = {
    "compile": [
        "add_loop_inductor_dynamic_gpu",
        "add_loop_inductor_gpu",
        "basic_modules_ListOfLinears_inductor_gpu",
        "basic_modules_ListOfLinears_inductor_gpu_force_shape_pad",
        "mm_loop_inductor_dynamic_gpu",
        "mm_loop_inductor_gpu",
    ],
    "all": [
        "autograd_function_apply_13_in_2_out_no_save",
        "dtensor_dispatch_add_backward",
        "dtensor_dispatch_collectives",
        "dtensor_dispatch_custom_handler",
        "dtensor_dispatch_detach",
        "dtensor_dispatch_inplace",
        "dtensor_dispatch_random",
        "dtensor_dispatch_to_from_local",
        "dtensor_dispatch_view",
        "runtime_overhead_inductor",
        "runtime_overhead_inductor_dynamic",
        "runtime_overhead_inductor_inference_mode",
        "runtime_overhead_inductor_inference_mode_dynamic",
        "runtime_overhead_inductor_requires_grad",
        "runtime_overhead_inductor_requires_grad_dynamic",
        "runtime_overhead_inductor_requires_grad_backward",
        "runtime_overhead_inductor_requires_grad_backward_dynamic",
    ],
}
SLOW = {
    "add_loop_eager_dynamic",
    "add_loop_inductor",
    "add_loop_inductor_dynamic_gpu",
    "add_loop_inductor_gpu",
    "aotdispatcher_inference_subclass_cpu",
    "aotdispatcher_partitioner_cpu",
    "aotdispatcher_training_subclass_cpu",
    "basic_InlineMod_eager",
    "basic_NestedModule_eager",
    "basic_modules_ListOfLinears_inductor",
    "basic_modules_ListOfLinears_inductor_gpu",
    "basic_modules_ListOfLinears_inductor_gpu_force_shape_pad",
    "diffusion_dit_full_inductor",
    "diffusion_dit_hierarchical_dynamic",
    "diffusion_dit_hierarchical_inductor",
    "diffusion_dit_regional_inductor",
    "float_args",
    "import_time_torch__dynamo",
    "import_time_torch__inductor",
    "mm_loop_inductor_dynamic_gpu",
    "sum_floordiv_regression",
    "symint_sum",
    "symint_sum_loop",
    "unbind_split_flip_cat_iter40_batch128",
}
SAME_AS_ON_CPU = {
    "add_loop_inductor_dynamic_gpu",
    "add_loop_inductor_gpu",
    "basic_modules_ListOfLinears_inductor_gpu",
    "basic_modules_ListOfLinears_inductor_gpu_force_shape_pad",
}
CONFIGURATIONS: tuple[Any, ...] = (
    torch._dynamo.config,
    torch._export.config,
    torch._functorch.config,
    torch._inductor.config,
    torch.fx.experimental._config,
)


def find(name: str) -> Counted:
    return next(each for each in compile_time.collect() if each.name == name)


def marked(names: list[str]) -> list[Any]:
    return [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in names]


def configuration() -> dict[str, Any]:
    """What one benchmark could change, and the next would notice. Inductor itself keeps notes in the environment."""
    return {
        **{module.__name__: module.get_config_copy() for module in CONFIGURATIONS},
        "stack traces": torch.fx.config.do_not_emit_stack_traces,
        "precision": torch.get_float32_matmul_precision(),
        "gradients": (torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
        "types": (torch.get_default_dtype(), torch.get_default_device()),
        "threads": torch.get_num_threads(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "ranks": torch.distributed.is_initialized(),
        "python": (gc.isenabled(), sys.getrecursionlimit()),
        "environment": {key: value for key, value in os.environ.items() if "TORCHINDUCTOR" not in key},
    }


def count_compilations(benchmark: Counted) -> list[int]:
    """How often the compiler was called in each of two iterations."""
    found = []
    try:
        benchmark.prepare_once()
        for _ in range(2):
            benchmark.prepare()
            compilation_time_metrics.clear()
            counters.clear()
            benchmark.work()
            found.append(len(compilation_time_metrics.get("_compile.compile_inner", [])))
            assert bool(counters["stats"]["unique_graphs"]) == bool(compilation_time_metrics)
    finally:
        benchmark.finish()
    return found


def test_names_are_those_of_the_original_each_once() -> None:
    names = [each.name for each in compile_time.collect()]
    expected = [*ON_CPU["compile"], *ON_CPU["all"], *ON_GPU["compile"], *ON_GPU["all"]]
    assert names == sorted(expected)
    assert len(set(names)) == len(names) == 54
    assert set(names) >= SLOW


def test_each_says_what_it_counts_where_it_runs_and_what_it_exercises() -> None:
    for each in compile_time.collect():
        here = ON_CPU if each.device == "cpu" else ON_GPU
        assert each.name in here[each.counts]
        assert each.device in {"cpu", "cuda"}
        assert each.description
        assert "\n" not in each.description
        assert each.category
    assert Counter(each.metric for each in compile_time.collect()) == {
        COUNTS["compile"]: 29,
        COUNTS["all"]: 25,
    }


def test_collecting_imports_no_torch() -> None:
    script = """
import sys
from torchstone.suites.compile_time import SUITE
assert len(SUITE.counted()) == 54 and not SUITE.collect()
print(sorted({"torch", "numpy", "triton", "msgspec", "click"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"


def test_every_list_is_new_so_that_what_one_run_makes_is_not_kept_for_the_next() -> None:
    assert not set(map(id, kept := compile_time.collect())) & set(map(id, compile_time.collect())), kept


@pytest.mark.parametrize("name", marked(ON_CPU["compile"]))
def test_the_compiler_compiles_in_every_iteration_and_torch_stays_as_it_was(name: str) -> None:
    benchmark, before = find(name), configuration()
    assert not benchmark.missing()
    first, second = count_compilations(benchmark)
    assert first == second > 0
    assert configuration() == before


@pytest.mark.parametrize("name", marked(ON_CPU["all"]))
def test_all_of_the_work_runs_again_and_torch_stays_as_it_was(name: str) -> None:
    benchmark, before = find(name), configuration()
    if reason := benchmark.missing():
        pytest.skip(reason)
    if name.startswith("unbind"):
        benchmark.rounds = 1  # type: ignore[attr-defined]  # forty take a minute each time
    first, second = count_compilations(benchmark)
    assert first == second == 0
    assert configuration() == before


@pytest.mark.parametrize("name", marked([*ON_GPU["all"], *sorted({*ON_GPU["compile"]} - SAME_AS_ON_CPU)]))
def test_what_is_meant_for_an_accelerator_could_run_anywhere(name: str) -> None:
    benchmark, before = find(name), configuration()
    benchmark.device = "cpu"
    first, second = count_compilations(benchmark)
    assert first == second
    assert (first > 0) == (benchmark.counts == "compile")
    assert configuration() == before


@pytest.mark.parametrize(
    "name", ["deep_nested_module_cpu", "dtensor_dispatch_detach", "runtime_overhead_eager_cpu"]
)
def test_a_benchmark_can_be_run_again_after_it_is_finished(name: str) -> None:
    benchmark = find(name)
    benchmark.device = "cpu"
    assert count_compilations(benchmark) == count_compilations(benchmark)


def test_an_import_says_how_long_it_took() -> None:
    from torchstone.suites.compile_time.runtime import ImportTime  # noqa: PLC0415

    benchmark = ImportTime("import_time_decimal", module="decimal")
    benchmark.prepare_once()
    benchmark.work()
    assert 0 < benchmark.measured()["import_time_us"] < 10_000_000


def test_an_import_that_fails_says_why() -> None:
    from torchstone.suites.compile_time.runtime import ImportTime  # noqa: PLC0415

    benchmark = ImportTime("import_time_nothing", module="there_is.no_such_module")
    assert benchmark.missing() == "there_is is not installed"
    with pytest.raises(RuntimeError, match="No module named 'there_is'"):
        benchmark.work()


@pytest.mark.parametrize("name", ["nn_module_guard_eval", "nn_module_guard_eval_dynamic"])
def test_guards_that_are_evaluated_hold_and_notice_a_change(name: str) -> None:
    benchmark: Any = find(name)
    benchmark.prepare_once()
    try:
        assert benchmark.guards.check(benchmark.variables)
        assert not benchmark.guards.check(benchmark.variables | {"value": torch.ones(3, 5)})
    finally:
        benchmark.finish()
