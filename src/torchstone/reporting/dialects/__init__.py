"""One renderer for each output format."""
