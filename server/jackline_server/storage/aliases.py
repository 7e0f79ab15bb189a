"""The words that mean something among a workflow's aliases, in every store."""

LATEST = "latest"
"""The alias that follows every put."""

NO_ALIAS = "none"
"""What `expect` says of an alias that must not exist."""
