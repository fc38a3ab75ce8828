"""Turn a store of runs into a short list of changes: detect them, group them by cause, triage the groups, find flaky cases."""
