"""Format numbers, escape unsafe text and hide credentials."""
