"""Records of what is known of a measurement or an outcome besides its numbers."""
