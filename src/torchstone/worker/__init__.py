"""The child's side: everything that runs in a measured process. Standard library and torch only."""
