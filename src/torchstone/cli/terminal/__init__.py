"""Output on the terminal: tables, progress displays, summaries."""
