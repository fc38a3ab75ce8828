"""Render the pages of the dashboard as HTML: one shell, one section a page, all links relative."""
