"""Records of details of measurements and outcomes: everything besides their numbers."""
