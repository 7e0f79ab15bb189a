"""Workflows as they are named, put, looked up and compiled."""
