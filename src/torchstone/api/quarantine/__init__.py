"""The entries of a quarantine file: list, add, remove, check."""
