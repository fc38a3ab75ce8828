"""The history: every run kept, in SQLite or PostgreSQL, through one protocol."""
