"""The protocol between the parent and its workers: jobs, orders and replies, sent as JSON and validated on arrival."""
