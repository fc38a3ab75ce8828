"""Measuring: the plan, the parent that runs it, and the isolated workers."""
