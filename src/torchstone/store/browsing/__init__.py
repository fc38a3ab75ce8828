"""What pages about a store show: queries that read the part that is shown, whatever the size of the store."""
