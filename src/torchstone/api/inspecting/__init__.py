"""What is here: the machine, the suites and the benchmarks."""
