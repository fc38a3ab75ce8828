"""Define benchmarks: ``@benchmark``, ``Suite``, ``@counted``, and the stand-in for pr_time's ``benchmark_base``."""
