"""Compare two sides, each of one or more files, with the one engine."""
