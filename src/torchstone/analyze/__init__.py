"""Analyse numbers with pure functions: no files, no clock, no judgement."""
