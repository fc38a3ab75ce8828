"""Measure a case inside the worker; apart from the suites' builders, the only code that imports torch."""
