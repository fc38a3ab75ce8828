"""A/B measurements: two sides, pairs of workers, and the code that differs."""
