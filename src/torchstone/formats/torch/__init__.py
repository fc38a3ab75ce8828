"""Read and write the file formats of PyTorch's own benchmark scripts."""
