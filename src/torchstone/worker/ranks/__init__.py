"""Distributed rounds: the elastic launcher of one host and the ranks that it starts."""
