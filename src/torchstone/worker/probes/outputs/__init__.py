"""Outputs of models: taken apart, compared, saved."""
