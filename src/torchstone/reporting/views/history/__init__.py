"""What the pages of the dashboard show: frozen records, the same for HTML, JSON and static files."""
