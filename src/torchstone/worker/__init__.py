"""Everything that runs in a worker process.

Standard library and torch only.
"""
