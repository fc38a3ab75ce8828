"""Group the changes of a store by their causes: the code, a machine, or its environment."""
