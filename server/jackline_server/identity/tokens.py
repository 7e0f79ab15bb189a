"""Static bearer tokens: who a token stands for.

Owns the comparison. A token itself is kept nowhere here, only its SHA-256.
"""

import hashlib
import hmac
from collections.abc import Iterable

from jackline_server.core.frozen import frozen
from jackline_server.identity.principals import Principal

LONGEST_TOKEN = 4096
"""A longer credential is refused unread."""


def digest_of(token: str) -> bytes:
    """What is stored in place of a token."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


@frozen
class KnownToken:
    """One token that is accepted: its SHA-256, and who it stands for."""

    digest: bytes
    principal: Principal


class TokenRegister:
    """The tokens of one server. Immutable, so that it can be replaced as a whole."""

    __slots__ = ("_known",)

    def __init__(self, known: Iterable[KnownToken]) -> None:
        self._known = tuple(known)

    def authenticate(self, token: str) -> Principal | None:
        """Who the token stands for, or None.

        Every known token is compared, each in constant time, whichever one fits.
        """
        if not token or len(token) > LONGEST_TOKEN:
            return None
        digest = digest_of(token)
        found: Principal | None = None
        for known in self._known:
            if hmac.compare_digest(known.digest, digest):
                found = known.principal
        return found
