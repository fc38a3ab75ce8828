"""Where the time of a case went: one call of each side, as torch's profiler saw it, by kernel."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

Milliseconds = Annotated[float, Meta(ge=0, le=1e12)]
_Count = Annotated[int, Meta(ge=0, le=2**53)]
_Text = Annotated[str, Meta(max_length=2_000)]

MOST_KERNELS = 400  # of one side
MOST_INTERVALS = 4_000  # of one side

Interval = tuple[Annotated[int, Meta(ge=-1, le=MOST_KERNELS)], _Count, _Count, _Count]
"""One stretch of work: the index of its kernel (-1: a folded one), its stream, and its start and duration in nanoseconds."""


class KernelTime(Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """The launches of one kernel from one place in a call: how many, and how long they took together.

    On a CPU, an operator takes the place of the kernel, with the time spent in itself. ``operator`` launched the kernel;
    ``module`` is where the model did, ``place`` the file and line, ``source`` that line. Text is empty if torch does not know.
    """

    name: _Text
    family: _Text
    dtype: _Text
    count: _Count
    milliseconds: Milliseconds
    operator: _Text = ""
    module: _Text = ""
    place: _Text = ""
    source: _Text = ""


class SideTime(Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """One call of one side. ``wall`` and ``busy`` are milliseconds: from its start until the device was done, and with work running.

    ``kernels`` has the costliest first; ``folded`` small ones are summed up, by family, under the name ``(rest)``. ``timeline`` has the
    first stretches of work of the call. ``problem`` says why there are no kernels.
    """

    wall: Milliseconds
    busy: Milliseconds
    launches: _Count
    kernels: Annotated[tuple[KernelTime, ...], Meta(max_length=MOST_KERNELS)] = ()
    folded: _Count = 0
    timeline: Annotated[tuple[Interval, ...], Meta(max_length=MOST_INTERVALS)] = ()
    problem: _Text = ""


class TimeProfile(Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """Both sides of a case. ``model_dtype`` is that of most parameters; ``tf32`` says whether float32 products may use TF32."""

    device: _Text
    device_name: _Text
    torch: _Text
    model_dtype: _Text
    eager: SideTime | None = None
    compiled: SideTime | None = None
    tf32: bool | None = None
    cuda_graphs: bool = False
