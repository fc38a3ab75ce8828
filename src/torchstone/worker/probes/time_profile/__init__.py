"""Where the time of a call goes: torch's profiler around single calls, its events as records, and their summary."""
