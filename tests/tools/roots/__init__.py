"""Packages that the function corpus may or may not reach."""
