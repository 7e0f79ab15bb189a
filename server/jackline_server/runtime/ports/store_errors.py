"""How a store fails."""


# StoreError
# ├── StoreUnavailable   can't be reached just now; nothing is known about the call in hand
# ├── StoreFull          no room; the call had no effect
# ├── StoreDamaged       what was read can't be right
# ├── Fenced             a newer epoch owns the run; the call had no effect
# ├── HeadMismatch       the log is not as long as the writer knows; the call had no effect
# ├── CommandsWaiting    a finishing append missed commands; the call had no effect
# ├── BlobMissing        a commit names a blob that is not in the store; the call had no effect
# └── AliasMoved         compare-and-set of an alias failed; the call had no effect


class StoreError(Exception):
    """A store could not do what it was asked."""


class StoreUnavailable(StoreError):
    """The store can't be reached; whether the call took effect is not known."""


class StoreFull(StoreError):
    """The store has no room; the call had no effect."""


class StoreDamaged(StoreError):
    """What the store returned can't be right, or it refuses to be read."""


class Fenced(StoreError):
    """A newer epoch owns the run; the call had no effect."""


class HeadMismatch(StoreError):
    """The log's head is not where the writer left it; the call had no effect."""

    def __init__(self, *, expected: int, found: int) -> None:
        super().__init__(f"expected head {expected}, found {found}")
        self.expected = expected
        self.found = found


class CommandsWaiting(StoreError):
    """A finishing append did not account for all commands; the call had no effect."""


class BlobMissing(StoreError):
    """A commit names a blob that is not in the store; the call had no effect. Put the bytes again."""

    def __init__(self, digest: str) -> None:
        super().__init__(f"the blob {digest} is not in the store")
        self.digest = digest


class AliasMoved(StoreError):
    """The alias does not point where the caller thought. `digest` is where it points, or None."""

    def __init__(self, digest: str | None) -> None:
        super().__init__("the alias has moved")
        self.digest = digest
