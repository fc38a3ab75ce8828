"""The procedure of each probe: which jobs a case needs, and the one outcome they add up to."""
