"""Check results against a baseline, with the one engine."""
