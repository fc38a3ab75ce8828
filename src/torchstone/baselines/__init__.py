"""Manage expected values: propose changes, adopt results, edit the text, learn margins."""
