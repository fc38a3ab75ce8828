"""The gate: weigh results against a baseline or another run, judge each row by its rule, and decide what blocks."""
