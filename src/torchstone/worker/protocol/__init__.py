"""The protocol between the parent and its workers: typed jobs, orders and replies, encoded to JSON and validated once where they arrive."""
