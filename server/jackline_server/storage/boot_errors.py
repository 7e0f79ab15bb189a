"""Why a store can't be opened. Owns the kinds; bootstrap maps them to exit codes.

Damage found at boot is the port's own StoreDamaged.
"""

from jackline_server.runtime.ports.store_errors import StoreError

# StoreError
# ├── StoreInUse        another process holds the store
# ├── StoreTooNew       a newer version wrote the store
# ├── StoreUnsuitable   the place can't hold a store: permissions, ownership, not a folder
# └── UpgradeFailed     an older store can't be brought up to date; it is as it was


class StoreInUse(StoreError):
    """Another process holds the data folder."""


class StoreTooNew(StoreError):
    """A newer version of Jackline wrote this store; this one must not touch it."""


class StoreUnsuitable(StoreError):
    """The folder can't be used as a data folder."""


class UpgradeFailed(StoreError):
    """A migration could not be applied; the store is what it was before."""
