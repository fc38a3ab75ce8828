"""Render where the time of a call went: text, Markdown, JSON, and a trace file."""
