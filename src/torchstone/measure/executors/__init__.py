"""Executors: where workers run.

All of them start workers for jobs; the rest of the parent does not know which one it uses.
"""
