"""Decide whether two sets of results agree, tensor by tensor, with a float64 reference if there is one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch

from torchstone.define.benchmarks import Check

COSINE_FLOOR = 0.99
NAN_TOLERANCE = 4e-2
SMALL_TENSOR = 1000
WIDE_TOLERANCE = 2e-2
ANOTHER_COMPUTATION = 0.5
PIECE = 2**24
HALF = (torch.float16, torch.bfloat16)

Values = Mapping[str, object]
"""Results of a run by name: tensors, numbers, texts and None."""


@dataclass(frozen=True)
class OutputComparison:
    """Compare results by a check's rules, with an optional float64 reference for close calls."""

    check: Check
    reference: Values | None
    equal_nan: bool = True

    def find_mismatch(self, eager: Values, compiled: Values) -> str:
        """Return the first difference that matters, in words; empty if there is none."""
        return next(self._mismatches(eager, compiled), "")

    def _mismatches(self, eager: Values, compiled: Values) -> Iterator[str]:
        if missing := [name for name in eager if name not in compiled]:
            yield f"{missing[0]} is missing from the compiled results"
        if extra := [name for name in compiled if name not in eager]:
            yield f"{extra[0]} is only in the compiled results"
        for name, expected in eager.items():
            reference = self.reference.get(name) if self.reference else None
            try:
                problem = self._difference(expected, compiled[name], reference)
            except (RuntimeError, TypeError) as error:  # a type of tensor that torch itself cannot compare
                problem = f"cannot be compared: {error}"
            if problem:
                yield f"{name}: {problem}"

    def _difference(self, eager: object, compiled: object, reference: object) -> str:
        if not isinstance(eager, torch.Tensor) or not isinstance(compiled, torch.Tensor):
            return self._other_difference(eager, compiled)
        if difference := _kind_difference(eager, compiled):
            return difference
        if eager.dtype == torch.bool:
            return self._mask_difference(eager, compiled)
        if eager.is_quantized or compiled.is_quantized:
            eager, compiled = eager.dequantize(), compiled.dequantize()
        if not (eager.is_floating_point() or eager.is_complex()):
            return (
                "" if torch.equal(eager, compiled) else f"{_count_unequal(eager, compiled)} elements differ"
            )
        known = reference if isinstance(reference, torch.Tensor) and reference.shape == eager.shape else None
        return self._float_difference(eager, compiled, known)

    def _other_difference(self, eager: object, compiled: object) -> str:
        if type(eager) is not type(compiled):
            return f"a {type(compiled).__name__}, eager has a {type(eager).__name__}"
        if isinstance(eager, float | complex) and isinstance(compiled, float | complex):
            apart = abs(eager - compiled)
            close = math.isfinite(apart) and apart <= self.check.tolerance * (1 + abs(eager))
            close = close or eager == compiled or (self.equal_nan and _is_nan(eager) and _is_nan(compiled))
            return "" if close else f"{compiled}, eager has {eager}"
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
        if _is_close(eager, compiled, tolerance, self.equal_nan):
            return ""
        theirs, ours = _widened(eager), _widened(compiled)
        both_nan = torch.isnan(theirs) & torch.isnan(ours)
        if not self.equal_nan and bool(both_nan.any()):
            return f"{int(both_nan.sum())} of {ours.numel()} elements are NaN in both"
        # Elements that are both NaN, or infinite with the same sign, agree without a distance.
        unsettled = ~(both_nan | (torch.isinf(theirs) & (theirs == ours)))
        exact = None if reference is None else _widened(reference)[unsettled]
        ours, theirs = ours[unsettled], theirs[unsettled]
        if wild := int((~torch.isfinite(ours)).sum()):
            return f"{wild} elements are NaN or infinite, and not the same as eager's"
        if exact is not None and bool((beyond := _is_beyond(exact, eager.dtype)).any()):
            # For example the largest number of each dtype, used in masks: float64's is no reference for it.
            if not _is_close(theirs[beyond], ours[beyond], tolerance, self.equal_nan):
                return f"off by up to {_largest_difference(theirs[beyond], ours[beyond]):.3g} where float64 is out of the range of {eager.dtype}"
            exact, ours, theirs = exact[~beyond], ours[~beyond], theirs[~beyond]
        if self.check.cosine:
            return _cosine_difference(theirs if exact is None else exact, ours)
        if exact is None:
            return f"off by up to {_largest_difference(theirs, ours):.3g} (tolerance {tolerance:g})"
        return self._reference_difference(theirs, ours, exact, self._multiplier(eager))

    def _reference_difference(
        self, eager: torch.Tensor, compiled: torch.Tensor, exact: torch.Tensor, multiplier: float
    ) -> str:
        """Compare the errors against float64: compiled may be worse than eager, but not by much."""
        if not bool(torch.isfinite(eager).all()):
            right = torch.allclose(compiled, exact, atol=NAN_TOLERANCE, rtol=NAN_TOLERANCE)
            return "" if right else "eager has NaN or infinity, and compiled is not near the float64 result"
        eager_error, compiled_error = _rmse(exact, eager), _rmse(exact, compiled)
        slack = self.check.tolerance / 10
        if compiled_error <= multiplier * eager_error + slack:
            return ""
        return (
            f"RMSE to float64 is {compiled_error:.3g}, eager's is {eager_error:.3g} "
            f"(allowed: {multiplier:g} times that plus {slack:g})"
        )

    def _multiplier(self, eager: torch.Tensor) -> float:
        """Return the allowed ratio of compiled to eager error: larger for coarse dtypes and few elements."""
        if self.check.multiplier is not None:
            return self.check.multiplier
        coarse = eager.dtype in HALF or self.check.tolerance >= WIDE_TOLERANCE
        single_pixel = eager.ndim == 4 and eager.shape[-1] == eager.shape[-2] == 1
        return 3.0 if coarse or eager.numel() < SMALL_TENSOR or single_pixel else 2.0


def find_unrelated(reference: Values, eager: Values, tolerance: float) -> str:
    """Return which eager result is too far from its float64 counterpart for rounding; empty if none is.

    Random numbers that a model draws depend on the dtype: float64 is then another computation, and no
    reference.
    """
    for name, value in eager.items():
        exact = reference.get(name)
        if not isinstance(value, torch.Tensor) or not isinstance(exact, torch.Tensor):
            continue
        if value.shape != exact.shape or not (value.is_floating_point() or value.is_complex()):
            continue
        within = ~_is_beyond(exact, value.dtype)
        size, error = _root_mean_square(exact[within]), _rmse(exact[within], value[within])
        if error > ANOTHER_COMPUTATION * size + tolerance:
            return f"{name} of eager is {error / size if size else float('inf'):.0%} off, which rounding cannot explain"
    return ""


def find_bitwise_difference(one: Values, other: Values) -> str:
    """Return the first difference of any kind, with NaN equal to NaN; empty if there is none."""
    if odd := sorted(one.keys() ^ other.keys()):
        return f"{odd[0]} is in one of the two only"
    for name, value in one.items():
        twin = other[name]
        if isinstance(value, torch.Tensor) and isinstance(twin, torch.Tensor):
            difference = _kind_difference(value, twin) or _bits_difference(value, twin)
        elif type(value) is type(twin) and (value == twin or (_is_nan(value) and _is_nan(twin))):
            difference = ""
        else:
            difference = f"{value!r:.60} and {twin!r:.60}"
        if difference:
            return f"{name}: {difference}"
    return ""


def _kind_difference(eager: torch.Tensor, compiled: torch.Tensor) -> str:
    if eager.shape != compiled.shape:
        return f"shape {tuple(compiled.shape)}, expected {tuple(eager.shape)}"
    if eager.dtype != compiled.dtype:
        return f"dtype {compiled.dtype}, expected {eager.dtype}"
    if eager.device != compiled.device:
        return f"on {compiled.device}, expected on {eager.device}"
    return ""


def _bits_difference(one: torch.Tensor, other: torch.Tensor) -> str:
    if one.is_quantized:
        one, other = one.dequantize(), other.dequantize()
    if one.is_complex():
        one, other = torch.view_as_real(one.resolve_conj()), torch.view_as_real(other.resolve_conj())
    bits = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[one.element_size()]
    if torch.equal(one.view(bits), other.view(bits)):
        return ""
    same = one == other
    if one.is_floating_point():
        nan = torch.isnan(one) & torch.isnan(other)
        same = (same & (torch.signbit(one.float()) == torch.signbit(other.float()))) | nan
    unequal = int((~same).sum())
    return f"{unequal} of {one.numel()} elements differ" if unequal else ""


def _is_nan(value: object) -> bool:
    return isinstance(value, float | complex) and value != value  # noqa: PLR0124  (only NaN differs from itself)


def _widened(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_complex():
        return tensor.to(torch.complex128)
    return tensor.double() if tensor.device.type != "mps" else tensor.float()


def _is_close(one: torch.Tensor, other: torch.Tensor, tolerance: float, equal_nan: bool) -> bool:
    """Return whether all elements are close; works in pieces, because a nearly full device has no room for float64."""
    starts = range(0, one.numel(), PIECE)
    flat, twin = one.reshape(-1), other.reshape(-1)
    pieces = ((flat[start : start + PIECE], twin[start : start + PIECE]) for start in starts)
    return all(
        torch.allclose(_widened(mine), _widened(yours), atol=tolerance, rtol=tolerance, equal_nan=equal_nan)
        for mine, yours in pieces
    )


def _is_beyond(exact: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Mark float64 numbers outside the range of a dtype, which nothing of that dtype can approximate."""
    return exact.abs() > torch.finfo(dtype).max


def _rmse(reference: torch.Tensor, value: torch.Tensor) -> float:
    """Return the root mean square of the differences, in the wider of the two types."""
    return _root_mean_square(reference - value)


def _root_mean_square(tensor: torch.Tensor) -> float:
    return float(torch.linalg.vector_norm(tensor)) / math.sqrt(tensor.numel()) if tensor.numel() else 0.0


def _cosine_difference(expected: torch.Tensor, compiled: torch.Tensor) -> str:
    """Return how two directions differ. A single number is compared by relative size instead."""
    one, other = _as_real(expected).flatten(), _as_real(compiled).flatten()
    if one.numel() == 1:
        near = abs(float(one) - float(other)) <= (1 - COSINE_FLOOR) * abs(float(one))
        return "" if near else f"{float(other):.6g}, expected {float(one):.6g}"
    similarity = float(torch.nn.functional.cosine_similarity(one, other, dim=0))
    if similarity >= COSINE_FLOOR:
        return ""
    return f"cosine similarity is {similarity:.4f} (at least {COSINE_FLOOR})"


def _as_real(tensor: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def _largest_difference(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one - other).abs().max()) if one.numel() else 0.0


def _count_unequal(one: torch.Tensor, other: torch.Tensor) -> str:
    return f"{int((one != other).sum())} of {one.numel()}"
