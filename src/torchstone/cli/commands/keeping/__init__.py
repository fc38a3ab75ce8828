"""Commands about the store."""
