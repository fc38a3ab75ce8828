"""Judge results: check, compare, accept, explain."""
