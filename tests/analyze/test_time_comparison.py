"""Two calls side by side: families, kernels, lines; what is new, gone, slower."""

from __future__ import annotations

from time_samples import GEMM_16, GEMM_32, kernel, side
from torchstone.analyze.call_time.time_comparison import compare_times

ATTENTION = {"module": "encoder.layer.*.attention", "place": "model.py:12"}


def test_times_and_launches_add_up_by_family_and_dtype_with_the_largest_change_first() -> None:
    before = side(kernel(GEMM_16, 4.0, 10), kernel("triton_poi_fused_gelu_0", 1.0, 3))
    after = side(kernel(GEMM_16, 3.0, 10), kernel(GEMM_32, 6.0, 2), kernel("triton_poi_fused_gelu_0", 1.5, 3))
    found = compare_times(before, after)
    assert [
        (each.label, each.base, each.new, each.base_count, each.new_count) for each in found.families
    ] == [
        ("matrix products float32", 0, 6.0, 0, 2),
        ("matrix products bfloat16", 4.0, 3.0, 10, 10),
        ("pointwise", 1.0, 1.5, 3, 3),
    ]
    assert sum(each.new for each in found.families) == found.busy.new == 10.5


def test_kernels_are_new_gone_slower_faster_or_the_same() -> None:
    before = side(kernel("a", 1.0), kernel("b", 1.0), kernel("c", 1.0), kernel("d", 1.0))
    after = side(kernel("b", 2.0), kernel("c", 0.5), kernel("d", 1.02), kernel("e", 3.0))
    states = {each.name: each.state for each in compare_times(before, after).kernels}
    assert states == {"a": "gone", "b": "slower", "c": "faster", "d": "", "e": "new"}


def test_the_numbers_of_generated_kernels_do_not_matter() -> None:
    before = side(kernel("triton_poi_fused_gelu_3", 1.0), kernel("ampere_sgemm_32x128_tn", 1.0))
    after = side(kernel("triton_poi_fused_gelu_7", 1.0), kernel("ampere_sgemm_64x64_tn", 1.0))
    found = {each.name: each.state for each in compare_times(before, after).kernels}
    assert found == {
        "triton_poi_fused_gelu": "",
        "ampere_sgemm_32x128_tn": "gone",
        "ampere_sgemm_64x64_tn": "new",
    }


def test_the_same_line_of_the_same_module_is_one_place_on_both_sides() -> None:
    before = side(kernel("flash_fwd_kernel", 1.0, 12, **ATTENTION))
    after = side(kernel(GEMM_32, 5.0, 24, **ATTENTION), kernel("unknown", 1.0))
    (place,) = compare_times(before, after).places
    assert (place.module, place.place, place.base, place.new) == (*ATTENTION.values(), 1.0, 5.0)


def test_folded_rows_count_for_their_family_but_are_no_kernel() -> None:
    found = compare_times(side(), side(kernel("(rest)", 2.0, 50, family="pointwise")))
    assert [each.label for each in found.families] == ["pointwise"]
    assert found.kernels == ()


def test_a_family_of_a_later_version_is_other() -> None:
    found = compare_times(side(), side(kernel("x", 2.0, family="quantum")))
    assert [each.label for each in found.families] == ["other"]


def test_idle_time_is_what_no_work_covers() -> None:
    found = compare_times(side(kernel("a", 2.0), wall=5.0), side(kernel("a", 2.0), wall=1.0))
    assert (found.idle.base, found.idle.new) == (3.0, 0.0)


def test_empty_calls_can_be_compared() -> None:
    found = compare_times(side(), side())
    assert (found.families, found.kernels, found.places) == ((), (), ())
