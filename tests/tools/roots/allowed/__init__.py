"""The one root that is allowed."""
