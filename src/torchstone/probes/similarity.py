"""Whether two sets of results are the same, near enough: per tensor, against a float64 reference where there is one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch

from torchstone.define import Check

COSINE_FLOOR = 0.99
NAN_TOLERANCE = 4e-2
SMALL_TENSOR = 1000
WIDE_TOLERANCE = 2e-2
HALF = (torch.float16, torch.bfloat16)

Values = Mapping[str, object]
"""What a run produced, by name: tensors, numbers, texts and None."""


@dataclass(frozen=True)
class Comparison:
    """How results are compared: the check's rules, whether a float64 reference decides close calls, and whether NaN equals NaN."""

    check: Check
    reference: Values | None
    equal_nan: bool = True

    def find_mismatch(self, eager: Values, compiled: Values) -> str:
        """The first difference that matters, in words; empty where there is none."""
        return next(self._mismatches(eager, compiled), "")

    def _mismatches(self, eager: Values, compiled: Values) -> Iterator[str]:
        if missing := [name for name in eager if name not in compiled]:
            yield f"{missing[0]} is missing from the compiled results"
        if extra := [name for name in compiled if name not in eager]:
            yield f"{extra[0]} is only in the compiled results"
        for name, expected in eager.items():
            reference = self.reference.get(name) if self.reference else None
            problem = self._difference(expected, compiled[name], reference)
            if problem:
                yield f"{name}: {problem}"

    def _difference(self, eager: object, compiled: object, reference: object) -> str:
        if not isinstance(eager, torch.Tensor) or not isinstance(compiled, torch.Tensor):
            return self._other_difference(eager, compiled)
        if eager.shape != compiled.shape:
            return f"shape {tuple(compiled.shape)}, eager has {tuple(eager.shape)}"
        if eager.dtype != compiled.dtype:
            return f"dtype {compiled.dtype}, eager has {eager.dtype}"
        if eager.dtype == torch.bool:
            return self._mask_difference(eager, compiled)
        if eager.is_quantized or compiled.is_quantized:
            eager, compiled = eager.dequantize(), compiled.dequantize()
        known = reference if isinstance(reference, torch.Tensor) and reference.shape == eager.shape else None
        if not (eager.is_floating_point() or eager.is_complex()):
            return (
                "" if torch.equal(eager, compiled) else f"{_count_unequal(eager, compiled)} elements differ"
            )
        return self._float_difference(eager, compiled, known)

    def _other_difference(self, eager: object, compiled: object) -> str:
        numbers = (int, float, complex)
        if type(eager) is not type(compiled):
            return f"a {type(compiled).__name__}, eager has a {type(eager).__name__}"
        if isinstance(eager, numbers) and not isinstance(eager, bool) and isinstance(compiled, numbers):
            close = abs(eager - compiled) <= self.check.tolerance * (1 + abs(eager))
            return "" if close or (_is_nan(eager) and _is_nan(compiled)) else f"{compiled}, eager has {eager}"
        return "" if eager == compiled else f"{compiled!r:.60}, eager has {eager!r:.60}"

    def _mask_difference(self, eager: torch.Tensor, compiled: torch.Tensor) -> str:
        if torch.equal(eager, compiled):
            return ""
        union = int((eager | compiled).sum())
        overlap = int((eager & compiled).sum()) / union if union else 1.0
        if self.check.overlap is not None and overlap >= self.check.overlap:
            return ""
        return f"{_count_unequal(eager, compiled)} elements of a mask differ (overlap {overlap:.4f})"

    def _float_difference(
        self, eager: torch.Tensor, compiled: torch.Tensor, reference: torch.Tensor | None
    ) -> str:
        tolerance = self.check.tolerance
        if self.check.cosine:
            return _cosine_difference(eager if reference is None else reference, compiled)
        wide = _widened(eager), _widened(compiled)
        if torch.allclose(*wide, atol=tolerance, rtol=tolerance, equal_nan=self.equal_nan):
            return ""
        if reference is None:
            return f"off by up to {_largest_difference(*wide):.3g} (tolerance {tolerance:g})"
        return self._reference_difference(eager, compiled, _widened(reference))

    def _reference_difference(
        self, eager: torch.Tensor, compiled: torch.Tensor, reference: torch.Tensor
    ) -> str:
        """Compare distances to the float64 result: the compiled one may be further off than eager, but not by much."""
        tolerance = self.check.tolerance
        if bool(torch.isnan(eager).any()) and not bool(torch.isnan(compiled).any()):
            right = torch.allclose(_widened(compiled), reference, atol=NAN_TOLERANCE, rtol=NAN_TOLERANCE)
            return "" if right else "eager has NaN, and compiled is not near the float64 result either"
        eager_error, compiled_error = _rmse(reference, eager), _rmse(reference, compiled)
        multiplier = self._multiplier(eager)
        if compiled_error <= multiplier * eager_error + tolerance / 10:
            return ""
        return (
            f"RMSE to float64 is {compiled_error:.3g}, eager's is {eager_error:.3g} "
            f"(allowed: {multiplier:g} times that plus {tolerance / 10:g})"
        )

    def _multiplier(self, eager: torch.Tensor) -> float:
        """How many times further from float64 than eager compiled may be: more for coarse dtypes and few elements."""
        if self.check.multiplier is not None:
            return self.check.multiplier
        coarse = eager.dtype in HALF or self.check.tolerance >= WIDE_TOLERANCE
        single_pixel = eager.ndim == 4 and eager.shape[-1] == eager.shape[-2] == 1
        return 3.0 if coarse or eager.numel() < SMALL_TENSOR or single_pixel else 2.0


def find_bitwise_difference(one: Values, other: Values) -> str:
    """The first difference of any kind, NaN being equal to NaN; empty where there is none."""
    if list(one) != list(other):
        return "the two have different outputs"
    for name, value in one.items():
        twin = other[name]
        if isinstance(value, torch.Tensor) and isinstance(twin, torch.Tensor):
            if value.shape != twin.shape or value.dtype != twin.dtype:
                return f"{name}: another shape or dtype"
            if not torch.equal(torch.nan_to_num(value), torch.nan_to_num(twin)) or not torch.equal(
                torch.isnan(value), torch.isnan(twin)
            ):
                return f"{name}: {_count_unequal(value, twin)} elements differ"
        elif value != twin and not (_is_nan(value) and _is_nan(twin)):
            return f"{name}: {value!r:.60} and {twin!r:.60}"
    return ""


def _is_nan(value: object) -> bool:
    return isinstance(value, float | complex) and value != value  # noqa: PLR0124  (only NaN differs from itself)


def _widened(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_complex():
        return tensor.to(torch.complex128)
    return tensor.double() if tensor.device.type != "mps" else tensor.float()


def _rmse(reference: torch.Tensor, value: torch.Tensor) -> float:
    return float(torch.sqrt(torch.mean(torch.square((reference - _widened(value)).abs()))))


def _cosine_difference(eager: torch.Tensor, compiled: torch.Tensor) -> str:
    one, other = _widened(eager).flatten(), _widened(compiled).flatten()
    if torch.equal(one, other) or float(one.norm()) == float(other.norm()) == 0.0:
        return ""
    similarity = float(
        torch.nn.functional.cosine_similarity(
            one.abs() if one.is_complex() else one, other.abs() if other.is_complex() else other, dim=0
        )
    )
    return (
        ""
        if similarity >= COSINE_FLOOR
        else f"cosine similarity is {similarity:.4f} (at least {COSINE_FLOOR})"
    )


def _largest_difference(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one - other).abs().max()) if one.numel() else 0.0


def _count_unequal(one: torch.Tensor, other: torch.Tensor) -> str:
    return f"{int((one != other).sum())} of {one.numel()}"
