"""What a person sees on a terminal: tables, live displays, summaries."""
