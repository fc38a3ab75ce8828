"""Encode what a store keeps for a time: raw samples of a measurement, and the details of a run.

Samples are a letter followed by the numbers: ``d`` for doubles and ``q`` for 64-bit integers, both little-endian, or ``j``
for JSON (numbers of both kinds, or integers beyond 64 bits). Details are the outcomes of a run without these samples, as JSON compressed by zlib.
"""

from __future__ import annotations

import math
import sys
import zlib
from array import array
from collections.abc import Sequence

import msgspec
from msgspec import Struct, structs

from torchstone.core.records import Number, Outcome, Run

_SWAPS = sys.byteorder == "big"
_QUICK = 1  # level of compression: details are compressed while somebody waits
_LARGEST = 1 << 63


def encode_samples(samples: Sequence[Number]) -> bytes:
    """Encode samples without loss.

    >>> decode_samples(encode_samples((1.5, 2.5))), decode_samples(encode_samples((1, 2.5))), len(encode_samples((1, 2)))
    ((1.5, 2.5), (1, 2.5), 17)
    """
    kinds = set(map(type, samples))
    if kinds == {float}:
        return b"d" + _packed(array("d", samples))
    if kinds == {int} and all(-_LARGEST <= value < _LARGEST for value in samples):
        return b"q" + _packed(array("q", (int(value) for value in samples)))
    return b"j" + msgspec.json.encode(samples)


def decode_samples(data: bytes) -> tuple[Number, ...]:
    """Decode samples; raise ValueError if the data is none."""
    kind, content = data[:1], data[1:]
    if kind == b"j":
        try:
            return msgspec.json.decode(content, type=tuple[int | float, ...])
        except msgspec.DecodeError as error:
            raise ValueError(str(error)) from None
    if kind not in {b"d", b"q"}:
        raise ValueError("no samples")
    values = array(kind.decode())
    values.frombytes(content)
    if _SWAPS:
        values.byteswap()
    return tuple(values)


def _packed(values: array[float] | array[int]) -> bytes:
    if _SWAPS:
        values.byteswap()
    return values.tobytes()


def is_in_details(samples: Sequence[Number]) -> bool:
    """Return whether the details of a run hold these samples: a single one, which a text can hold."""
    return len(samples) == 1 and math.isfinite(samples[0])


class RunDetails(Struct, frozen=True, omit_defaults=True):
    """Outcomes and control cases of a run; measurements of the outcomes have a sample here only if it is their only one."""

    outcomes: tuple[Outcome, ...] = ()
    controls: tuple[Outcome, ...] = ()


def encode_details(run: Run) -> bytes:
    """Encode the details of a run."""
    kept = RunDetails(tuple(map(_without_samples, run.outcomes)), run.controls)
    return zlib.compress(msgspec.json.encode(kept), _QUICK)


def decode_details(data: bytes) -> RunDetails:
    """Decode the details of a run; raise ValueError if the data is none."""
    try:
        return msgspec.json.decode(zlib.decompress(data), type=RunDetails)
    except (zlib.error, msgspec.DecodeError) as error:
        raise ValueError(str(error)) from None


class _OnlyControls(Struct, frozen=True):
    controls: tuple[Outcome, ...] = ()


def decode_controls(data: bytes) -> tuple[Outcome, ...]:
    """Decode only the control cases of a run; raise ValueError if the data is none."""
    try:
        return msgspec.json.decode(zlib.decompress(data), type=_OnlyControls).controls
    except (zlib.error, msgspec.DecodeError) as error:
        raise ValueError(str(error)) from None


def _without_samples(outcome: Outcome) -> Outcome:
    if all(is_in_details(each.samples) for each in outcome.measurements):
        return outcome
    measurements = tuple(
        each if is_in_details(each.samples) else structs.replace(each, samples=())
        for each in outcome.measurements
    )
    return structs.replace(outcome, measurements=measurements)
