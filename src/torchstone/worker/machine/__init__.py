"""Read facts about this machine: hardware, accelerators, installed software, environment variables."""
