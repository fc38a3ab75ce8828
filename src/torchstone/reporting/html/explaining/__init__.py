"""Render where the time of a call went as part of an HTML page."""
