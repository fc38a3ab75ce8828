"""Count instructions and calls, and make profiles."""
