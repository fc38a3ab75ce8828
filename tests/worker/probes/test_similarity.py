"""The rules by which results are the same, with numbers that were worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from torchstone.define.benchmarks import Check
from torchstone.worker.probes.outputs import similarity
from torchstone.worker.probes.outputs.similarity import (
    OutputComparison,
    find_bitwise_difference,
    find_unrelated,
)

NAN, INF = math.nan, math.inf


def compare(
    eager: object,
    compiled: object,
    exact: object = None,
    check: Check | None = None,
    equal_nan: bool = True,
) -> str:
    """The mismatch between two single results, in words; empty where there is none."""
    reference = None if exact is None else {"it": exact}
    comparison = OutputComparison(check or Check(), reference, equal_nan)
    return comparison.find_mismatch({"it": eager}, {"it": compiled})


def off(numel: int, by: float, dtype: torch.dtype = torch.float32) -> Tensor:
    """Ones that are all off by as much: their RMSE to one is that number."""
    return torch.full((numel,), 1 + by, dtype=dtype)


# Within the tolerance


@pytest.mark.parametrize(
    ("compiled", "same"), [(1.00019, True), (1.00021, False), (0.99981, True), (0.99979, False)]
)
def test_tolerance_is_absolute_and_relative_at_once(compiled: float, same: bool) -> None:
    # |compiled - eager| <= 1e-4 + 1e-4 * |compiled or eager|, which is 2e-4 near one.
    assert (compare(torch.tensor([1.0]), torch.tensor([compiled])) == "") is same


def test_tolerance_is_not_blurred_by_the_precision_of_half_types() -> None:
    one, next_up = torch.tensor([1.0], dtype=torch.bfloat16), torch.tensor([1.0078125], dtype=torch.bfloat16)
    assert "off by up to 0.00781" in compare(one, next_up)
    assert compare(one, next_up, check=Check(8e-3)) == ""


def test_large_tensors_are_compared_to_their_last_element(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(similarity, "PIECE", 7)
    eager = torch.ones(5, 5)
    assert compare(eager, eager.clone()) == ""
    compiled = eager.clone()
    compiled[4, 4] = 2
    assert "off by up to 1" in compare(eager, compiled)
    assert compare(eager.t(), compiled.t()) != ""


# Further off than that, but no further from float64 than eager


@pytest.mark.parametrize(
    ("numel", "dtype", "tolerance", "multiplier"),
    [
        (1000, torch.float32, 1e-4, 2.0),
        (999, torch.float32, 1e-4, 3.0),  # few elements
        (1000, torch.float16, 1e-4, 3.0),
        (1000, torch.bfloat16, 1e-4, 3.0),
        (1000, torch.float32, 1.9e-2, 2.0),
        (1000, torch.float32, 2e-2, 3.0),  # a model that is known to be imprecise
    ],
)
def test_compiled_may_be_so_many_times_further_from_float64_than_eager(
    numel: int, dtype: torch.dtype, tolerance: float, multiplier: float
) -> None:
    error = 0.25  # exact in every type, so that multiples of it are
    exact, eager = torch.ones(numel, dtype=torch.float64), off(numel, error, dtype)
    check = Check(tolerance)
    allowed = multiplier * error + tolerance / 10
    step = 0.0078125  # of bfloat16 near one
    below, above = math.floor(allowed / step) * step, math.ceil(allowed / step) * step
    if dtype == torch.bfloat16:  # whose steps are twice as wide from two on: stay below
        below, above = 0.75, 0.7578125
    assert compare(eager, off(numel, -below, dtype), exact, check) == ""
    mismatch = compare(eager, off(numel, -above, dtype), exact, check)
    assert f"(allowed: {multiplier:g} times that plus {tolerance / 10:g})" in mismatch
    assert "eager's is 0.25" in mismatch


def test_one_by_one_images_are_allowed_three_times_the_error() -> None:
    exact = torch.ones(1000, 2, 1, 1, dtype=torch.float64)
    eager, compiled = exact.float() + 0.25, exact.float() - 0.7
    assert compare(eager, compiled, exact) == ""
    assert "allowed: 2 times" in compare(eager.flatten(), compiled.flatten(), exact.flatten())


def test_tenth_of_the_tolerance_is_allowed_where_eager_is_exact() -> None:
    exact = torch.ones(1000, dtype=torch.float64)
    # One element is off by 1, so that allclose fails; the RMSE is 1/sqrt(1000) = 0.0316.
    compiled = exact.float()
    compiled[0] = 2
    assert compare(exact.float(), compiled, exact, Check(0.33)) == ""
    assert "RMSE to float64 is 0.0316, eager's is 0" in compare(exact.float(), compiled, exact, Check(0.31))


def test_multiplier_of_the_check_is_taken_instead() -> None:
    exact, eager, compiled = torch.ones(1000, dtype=torch.float64), off(1000, 0.25), off(1000, -2)
    assert compare(eager, compiled, exact) != ""
    assert compare(eager, compiled, exact, Check(multiplier=10.0)) == ""
    assert "allowed: 1 times" in compare(eager, off(1000, -0.26), exact, Check(multiplier=1.0))


def test_reference_of_another_shape_is_none() -> None:
    assert "tolerance" in compare(off(10, 0.25), off(10, -0.25), torch.ones(9, dtype=torch.float64))


def test_reference_is_of_no_use_to_a_result_it_does_not_have() -> None:
    comparison = OutputComparison(Check(), {"other": torch.ones(10)})
    assert "tolerance" in comparison.find_mismatch({"it": off(10, 0.25)}, {"it": off(10, -0.25)})


# Directions


def test_cosine_similarity_looks_at_directions_only() -> None:
    check = Check(cosine=True)
    assert compare(torch.tensor([1.0, 2.0]), torch.tensor([10.0, 20.0]), check=check) == ""
    # cos of the angle between (1, 0) and (7, 1) is 7 / sqrt(50) = 0.98995; between (1, 0) and (8, 1) 8 / sqrt(65) = 0.99228.
    assert "cosine similarity is 0.9899" in compare(
        torch.tensor([1.0, 0.0]), torch.tensor([7.0, 1.0]), check=check
    )
    assert compare(torch.tensor([1.0, 0.0]), torch.tensor([8.0, 1.0]), check=check) == ""


def test_cosine_similarity_is_to_float64_where_there_is_one() -> None:
    eager, exact = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0], dtype=torch.float64)
    assert compare(eager, torch.tensor([0.0, 2.0]), exact, Check(cosine=True)) == ""


def test_results_within_the_tolerance_need_no_direction() -> None:
    tiny = torch.tensor([1e-9, 0.0])
    assert compare(tiny, -tiny, check=Check(cosine=True)) == ""
    assert compare(torch.zeros(3), torch.zeros(3), check=Check(cosine=True)) == ""
    assert compare(torch.zeros(3), torch.ones(3), check=Check(cosine=True)) != ""


@pytest.mark.parametrize(("compiled", "same"), [(5.04, True), (5.06, False), (-5.0, False), (500.0, False)])
def test_single_number_has_no_direction_and_is_held_to_one_percent(compiled: float, same: bool) -> None:
    mismatch = compare(torch.tensor(5.0), torch.tensor(compiled), check=Check(cosine=True))
    assert (mismatch == "") is same


def test_phases_of_complex_numbers_are_directions_too() -> None:
    eager = torch.tensor([1 + 0j, 2 + 0j])
    assert "cosine similarity is 0.0000" in compare(eager, eager * 1j, check=Check(cosine=True))


# NaN and infinity


@pytest.mark.parametrize("exact", [None, torch.tensor([NAN, 2.0], dtype=torch.float64)])
def test_nan_in_both_is_the_same_unless_float32_was_asked_for(exact: Tensor | None) -> None:
    eager = torch.tensor([NAN, 2.0])
    assert compare(eager, eager.clone(), exact, equal_nan=True) == ""
    assert "1 of 2 elements are NaN in both" in compare(eager, eager.clone(), exact, equal_nan=False)


def test_other_elements_are_still_compared_where_some_are_nan_in_both() -> None:
    exact = torch.tensor([NAN, 1.0, 1.0], dtype=torch.float64)
    eager = torch.tensor([NAN, 1.25, 1.25])
    assert compare(eager, torch.tensor([NAN, 0.75, 0.75]), exact) == ""
    assert "RMSE to float64 is 2" in compare(eager, torch.tensor([NAN, 3.0, 3.0]), exact)
    assert compare(eager, torch.tensor([NAN, 3.0, 3.0]), check=Check(cosine=True)) == ""
    assert compare(eager, torch.tensor([NAN, 3.0, -3.0]), check=Check(cosine=True)) != ""


@pytest.mark.parametrize("equal_nan", [True, False])
def test_nan_in_compiled_only_is_a_mismatch(equal_nan: bool) -> None:
    exact = torch.ones(2, dtype=torch.float64)
    eager, compiled = torch.ones(2), torch.tensor([1.0, NAN])
    for check in (Check(), Check(cosine=True)):
        assert "1 elements are NaN or infinite" in compare(eager, compiled, exact, check, equal_nan)
        assert "1 elements are NaN or infinite" in compare(eager, compiled, None, check, equal_nan)


@pytest.mark.parametrize("wild", [NAN, INF, -INF])
@pytest.mark.parametrize(("by", "same"), [(0.03, True), (0.2, False)])
def test_compiled_that_is_better_than_an_eager_nan_or_overflow_passes_if_it_is_near_float64(
    wild: float, by: float, same: bool
) -> None:
    exact = torch.tensor([3.0, 1.0], dtype=torch.float64)
    mismatch = compare(torch.tensor([wild, 1.0]), torch.tensor([3 + by, 1.0]), exact)
    assert (mismatch == "") is same


def test_infinity_is_the_same_with_the_same_sign_only() -> None:
    eager = torch.tensor([INF, 1.25])
    exact = torch.tensor([INF, 1.0], dtype=torch.float64)
    assert compare(eager, torch.tensor([INF, 0.75]), exact) == ""
    assert "NaN or infinite" in compare(eager, torch.tensor([-INF, 1.25]), exact)
    largest = torch.finfo(torch.float32).max
    assert (
        compare(torch.tensor([largest]), torch.tensor([INF]), torch.tensor([1e39], dtype=torch.float64)) != ""
    )


# Other kinds of results


def test_shape_dtype_and_number_of_results_must_match() -> None:
    assert compare(torch.ones(3), torch.ones(1, 3)) == "it: shape (1, 3), expected (3,)"
    assert compare(torch.ones(3), torch.ones(3).half()) == "it: dtype torch.float16, expected torch.float32"
    comparison = OutputComparison(Check(), None)
    assert comparison.find_mismatch({"a": 1, "b": 2}, {"a": 1}) == "b is missing from the compiled results"
    assert comparison.find_mismatch({"a": 1}, {"a": 1, "c": 2}) == "c is only in the compiled results"
    assert comparison.find_mismatch({"a": 1, "b": 2}, {"b": 2, "a": 1}) == ""


def test_whole_numbers_must_be_the_same() -> None:
    eager = torch.tensor([10_000_000, 2])
    assert compare(eager, eager.clone()) == ""
    assert compare(eager, torch.tensor([10_000_001, 2])) == "it: 1 of 2 elements differ"
    assert compare(10_000_000, 10_000_001) == "it: 10000001, eager has 10000000"
    assert compare(torch.tensor([1], dtype=torch.uint16), torch.tensor([1], dtype=torch.uint16)) == ""


@pytest.mark.parametrize(
    ("eager", "compiled", "same"),
    [
        (1.0, 1.0001, True),
        (1.0, 1.001, False),
        (1.0, 1, False),
        (True, 1, False),
        (True, True, True),
        (1 + 1j, 1 + 1.0001j, True),
        (NAN, NAN, True),
        (INF, INF, True),
        (INF, -INF, False),
        (None, None, True),
        (None, 0.0, False),
        ("text", "text", True),
        ("text", "other", False),
        (torch.tensor(1.0), 1.0, False),
    ],
)
def test_numbers_texts_and_none_are_compared_as_what_they_are(
    eager: object, compiled: object, same: bool
) -> None:
    assert (compare(eager, compiled) == "") is same


def test_nan_as_a_number_follows_the_rule_for_tensors() -> None:
    assert compare(NAN, NAN, equal_nan=False) == "it: nan, eager has nan"


def test_masks_must_be_the_same_or_overlap_enough() -> None:
    eager = torch.arange(100) < 50
    compiled = torch.arange(100) < 49  # 49 of the 50 that either has
    assert "overlap 0.9800" in compare(eager, compiled)
    assert "overlap 0.9800" in compare(eager, compiled, check=Check(overlap=0.99))
    assert compare(eager, compiled, check=Check(overlap=0.98)) == ""
    assert compare(eager, eager.clone()) == ""
    nothing = torch.zeros(3, dtype=torch.bool)
    assert compare(nothing, nothing.clone()) == ""
    assert "overlap 0.0000" in compare(nothing, ~nothing, check=Check(overlap=0.5))


def test_complex_results_are_compared_in_both_parts() -> None:
    eager = torch.tensor([1 + 1j])
    assert compare(eager, torch.tensor([1 + 1.0001j])) == ""
    exact = torch.tensor([1 + 1j], dtype=torch.complex128)
    assert "RMSE to float64 is 2" in compare(eager, torch.tensor([1 - 1j]), exact)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_eight_bit_floats_are_compared(dtype: torch.dtype) -> None:
    eager = torch.tensor([1.0, 2.0]).to(dtype)
    assert compare(eager, eager.clone()) == ""
    assert "off by up to 1" in compare(eager, torch.tensor([1.0, 3.0]).to(dtype))


@pytest.mark.filterwarnings("ignore:.*quantize_per_tensor:UserWarning")
@pytest.mark.filterwarnings("ignore:.*[Qq]uantiz:DeprecationWarning")
def test_quantized_results_are_compared_by_what_they_stand_for() -> None:
    def quantized(*values: float) -> Tensor:
        return torch.quantize_per_tensor(torch.tensor(values), 0.1, 0, torch.qint8)

    assert compare(quantized(1.0, 2.0), quantized(1.0, 2.0)) == ""
    assert "off by up to 0.5" in compare(quantized(1.0, 2.0), quantized(1.0, 2.5))


def test_empty_results_are_the_same() -> None:
    for check in (Check(), Check(cosine=True)):
        assert compare(torch.ones(0, 3), torch.ones(0, 3), torch.ones(0, 3).double(), check) == ""


def test_result_that_torch_cannot_compare_is_a_mismatch_and_not_a_crash() -> None:
    class Odd(torch.Tensor):
        pass

    def refuse(*_: object) -> None:
        raise RuntimeError("no kernel for this")

    odd = torch.ones(2).as_subclass(Odd)
    odd.reshape = refuse  # type: ignore[method-assign, assignment]
    assert compare(odd, torch.ones(2)) == "it: cannot be compared: no kernel for this"


# Bit by bit


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (torch.tensor([1.0, NAN]), torch.tensor([1.0, NAN]), True),
        (torch.tensor([1.0, NAN]), torch.tensor([NAN, 1.0]), False),
        (torch.tensor([1.0]), torch.tensor([1.0 + 2**-23]), False),
        (torch.tensor([0.0]), torch.tensor([-0.0]), False),
        (torch.tensor([INF]), torch.tensor([INF]), True),
        (torch.tensor([INF]), torch.tensor([torch.finfo(torch.float32).max]), False),
        (torch.tensor([1j]), torch.tensor([1j]), True),
        (torch.tensor([1j]), torch.tensor([-1j]), False),
        (torch.tensor([1j]).conj(), torch.tensor([complex(0, -1)]), True),
        (torch.tensor([True]), torch.tensor([True]), True),
        (torch.tensor([1]), torch.tensor([2]), False),
        (torch.tensor([1]), torch.tensor([1.0]), False),
        (torch.tensor([1.0]), torch.tensor([[1.0]]), False),
        (torch.tensor([1.0]).to(torch.float8_e5m2), torch.tensor([1.0]).to(torch.float8_e5m2), True),
        (torch.tensor([1.0]), 1.0, False),
        (1, 1.0, False),
        (NAN, NAN, True),
        ("a", "a", True),
        (None, None, True),
    ],
)
def test_two_runs_are_the_same_in_every_bit_or_they_are_not(one: object, other: object, same: bool) -> None:
    assert (find_bitwise_difference({"it": one}, {"it": other}) == "") is same


def test_result_that_only_one_run_has_is_named() -> None:
    assert find_bitwise_difference({"a": 1, "b": 2}, {"a": 1}) == "b is in one of the two only"
    assert find_bitwise_difference({"a": 1, "b": 2}, {"b": 2, "a": 1}) == ""


# A float64 run that computed something else


def test_eager_that_is_nowhere_near_float64_cannot_be_judged_by_it() -> None:
    exact = torch.ones(10, dtype=torch.float64)
    assert find_unrelated({"it": exact}, {"it": off(10, 0.4)}, 1e-4) == ""
    assert "it of eager is 60% off" in find_unrelated({"it": exact}, {"it": off(10, 0.6)}, 1e-4)


def test_noise_around_zero_is_no_other_computation() -> None:
    exact = torch.full((10,), 1e-9, dtype=torch.float64)
    assert find_unrelated({"it": exact}, {"it": -exact.float()}, 1e-4) == ""
    assert "inf% off" in find_unrelated({"it": exact * 0}, {"it": torch.ones(10)}, 1e-4)


def test_only_numbers_of_the_same_shape_can_be_strangers() -> None:
    exact: dict[str, object] = {"a": torch.ones(3), "b": torch.tensor([1]), "c": "text", "d": torch.ones(2)}
    eager: dict[str, object] = {
        "a": torch.ones(2) * 9,
        "b": torch.tensor([9]),
        "c": "other",
        "e": torch.ones(1),
    }
    assert find_unrelated(exact, eager, 1e-4) == ""


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_numbers_near_the_largest_of_their_dtype_hide_nothing(dtype: torch.dtype) -> None:
    """A mask of such numbers is as far from float64's as can be, and on both sides the same."""
    exact = torch.tensor([torch.finfo(torch.float64).min, 1.0], dtype=torch.float64)
    eager = torch.tensor([torch.finfo(dtype).min, 1.0], dtype=dtype)
    assert compare(eager, eager.clone(), exact) == ""
    assert "RMSE to float64 is 4" in compare(
        eager, torch.tensor([torch.finfo(dtype).min, 5.0], dtype=dtype), exact
    )
    assert "off by up to" in compare(eager, torch.tensor([0.0, 1.0], dtype=dtype), exact)
