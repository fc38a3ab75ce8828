"""Records, vocabulary, errors, the run file and the configuration: the base of all other packages."""
