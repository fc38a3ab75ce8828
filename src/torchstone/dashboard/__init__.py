"""The dashboard: pages about a store, served live or written as static files."""
