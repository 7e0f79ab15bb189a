"""Doubles that ship: strict ones, for the tests of this server and of those who build on it.

An unexpected call fails, and so does a step that was scripted and never used.
"""
