"""Commands that compare and judge."""
