"""How long an accelerator is busy: torch's profiler around calls, typed device intervals, busy time, submit time."""
