"""Read result files of other benchmark tools."""
