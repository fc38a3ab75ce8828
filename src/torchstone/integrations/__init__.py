"""Tell other services what happened."""
