"""The commands, a module for those that belong together."""
