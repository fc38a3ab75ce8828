"""What torch.compile reports about its own work: statistics, caches, phases, artifacts."""
