"""Decide what is shown of where the time of a call went."""
