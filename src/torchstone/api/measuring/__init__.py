"""Measure: runs, A/B experiments, PyTorch's own benchmarks, and the state of the machine."""
