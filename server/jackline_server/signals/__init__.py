"""Nudges between the parts of a deployment. Losing one loses no fact."""
