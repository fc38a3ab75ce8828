"""What the gate found out, for people and for machines: what a row says is decided once, in ``views``."""
