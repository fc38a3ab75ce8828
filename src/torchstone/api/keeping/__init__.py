"""Keep runs in a store, query their series, and manage the store."""
