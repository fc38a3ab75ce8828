"""The databases that hold a store: one protocol, SQLite and PostgreSQL, tables and migrations."""
