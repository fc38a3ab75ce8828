"""The code under test: its revision, where its modules are, and whether it may be executed."""
