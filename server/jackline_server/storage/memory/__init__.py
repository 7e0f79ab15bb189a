"""A store that keeps nothing: for tests and for servers that may forget."""
