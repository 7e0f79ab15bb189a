"""Carrying runs on: one log at a time, and the scheduler of all that this process drives."""
