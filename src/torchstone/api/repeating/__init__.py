"""Measure cases of a run file again: a failed case, or counted ones several times."""
