"""The gate: results x baselines x rules x quarantine -> one verdict a row, under a policy that decides what blocks."""
