"""``explain``: where the time of a case went, and where a difference in counts came from."""
