"""Counters of instructions and calls, and profiles made with them."""
