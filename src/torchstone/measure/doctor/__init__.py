"""The doctor: facts about a machine and findings about its noise."""
