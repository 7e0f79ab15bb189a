"""What can be wrong inside the core. All of these mean a damaged log or a bug, never bad input."""

# CoreError
# └── CorruptLog    the facts do not add up to a run


class CoreError(Exception):
    """The core met something that its callers rule out."""


class CorruptLog(CoreError):
    """The facts do not add up to a run."""
