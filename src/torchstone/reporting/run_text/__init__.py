"""A run as text: a line per case, the summary with its notes, and everything about one case."""
