"""Read, convert and show result files."""
