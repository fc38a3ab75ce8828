"""Keep a store small and sound: prune, pin, remove, rename, verify, copy, describe."""
