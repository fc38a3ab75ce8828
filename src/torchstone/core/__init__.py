"""Records, words, errors, the run file and the configuration: what everything else is built from."""
