"""Pure functions on numbers: no files, no clock, no judgement."""
