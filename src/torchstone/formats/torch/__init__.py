"""PyTorch's own files."""
