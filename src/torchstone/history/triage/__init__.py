"""Triage: what people, and the data, decide about groups of changes."""
