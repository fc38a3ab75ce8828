"""Command line options: declared as data, parsed, and turned into requests."""
