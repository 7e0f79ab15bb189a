"""A store's troubles as refusals.

Owns the translation for use cases that speak to a store on behalf of a caller.
"""

from collections.abc import Generator
from contextlib import contextmanager

from jackline_server.runtime.ports.store_errors import StoreDamaged, StoreFull, StoreUnavailable
from jackline_server.runtime.refusals import Reason, Refused


@contextmanager
def refusing_store_errors() -> Generator[None]:
    """Turn what a store raises into Refused."""
    try:
        yield
    except StoreFull:
        raise Refused(
            Reason.STORE_FULL,
            "The store has no room. Free space, then try again.",
            retry_after_ms=5_000,
        ) from None
    except StoreUnavailable:
        raise Refused(
            Reason.STORE_UNAVAILABLE,
            "The store can't be reached just now. Try again with the same request id.",
            retry_after_ms=1_000,
        ) from None
    except StoreDamaged:
        raise Refused(Reason.DATA_LOSS, "The store is damaged. Call whoever runs this server.") from None
