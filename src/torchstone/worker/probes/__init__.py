"""What is measured of a case, in the worker: the only code, beside the suites' builders, that imports torch."""
