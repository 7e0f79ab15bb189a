"""One suite for every implementation of a port."""
