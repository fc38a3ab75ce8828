"""The error of a builder whose benchmark cannot be measured on this machine."""

from __future__ import annotations


class NotAvailableError(Exception):
    """Something that a benchmark needs is missing here, such as a device or a file: its case is ``not_available``, which is no failure."""
