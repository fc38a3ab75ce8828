"""The state of a device while it is timed: clocks, power, temperature, throttling, other processes.

Nothing here raises.
"""
