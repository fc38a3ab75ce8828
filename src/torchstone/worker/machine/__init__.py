"""Facts about this machine: hardware, accelerators, installed software, environment variables."""
