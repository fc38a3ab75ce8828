"""Read what torch.compile reports about its work: statistics, caches, phases, artifacts."""
