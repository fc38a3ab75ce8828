"""Define what is shown of changes, groups of them, and triage."""
