"""Devices that cases are measured on: how many cases run at once, which device each gets, and whose turn it is."""
