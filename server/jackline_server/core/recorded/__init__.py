"""Recorded logs: re-decided against what was done, and begun anew as forks."""
