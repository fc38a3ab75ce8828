"""What all suites that come with torchstone have in common."""

from __future__ import annotations

import subprocess
import sys

import pytest

from torchstone.define.benchmarks import MODES
from torchstone.suites import BUILT_IN, load_suite

# Of torchbench there are as many as are installed.
COUNTS = {
    "smoke": 8,
    "huggingface": 32,
    "huggingface_llm": 14,
    "timm": 18,
    "compile_time": 54,
    "scaling": 7,
}


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_suite_has_its_benchmarks_in_the_order_of_their_names_each_once(name: str) -> None:
    suite = load_suite(name)
    names = [each.name for each in (*suite.collect(), *suite.counted())]
    assert suite.name == name
    assert len(names) == COUNTS.get(name, len(names)) > 0
    assert names == sorted(set(names))


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_benchmark_says_how_it_is_run_and_judged(name: str) -> None:
    for benchmark in load_suite(name).collect():
        assert "batch_size" in benchmark.takes
        assert set(benchmark.modes) <= set(MODES)
        assert benchmark.check is not None
        for mode in benchmark.modes:
            check = benchmark.check(mode, "float32", "cpu")
            assert 0 < check.tolerance < 0.2
            assert benchmark.check(mode, "bfloat16", "cpu").tolerance >= check.tolerance


def test_suites_are_read_without_importing_torch_or_a_model_library() -> None:
    script = """
import sys
from torchstone.suites import BUILT_IN, load_suite
for name in BUILT_IN:
    load_suite(name).collect()
    load_suite(name).counted()
heavy = {"torch", "transformers", "timm", "torchvision", "numpy", "torchbenchmark", "msgspec", "click"}
print(sorted(heavy & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"


def test_small_sizes_come_with_small_batches() -> None:
    from torchstone.suites import huggingface, timm  # noqa: PLC0415  (what the planner does)

    assert [module.small_batch_size(64) for module in (huggingface, timm)] == [2, 2]
    assert [module.small_batch_size(1) for module in (huggingface, timm)] == [1, 1]
