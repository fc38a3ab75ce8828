"""Render changes and triage: text, Markdown, JSON, chat."""
