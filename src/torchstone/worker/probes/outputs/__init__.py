"""Flatten, compare and save the outputs of models."""
