"""Judging results: check, compare, accept, explain."""
