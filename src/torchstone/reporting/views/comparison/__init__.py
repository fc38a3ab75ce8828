"""Decide what the page of a comparison shows: its headline, its rows, and the trials that are drawn."""
