"""Commands that read and write files."""
