"""Turn a store of runs into a short list of changes.

Detect changes, group them by cause, triage the groups, find flaky cases.
"""
