"""Which patterns of users are accepted: what RE2 compiles in little memory, so that it runs in linear time.

Owns the only use of RE2, and looking for a pattern of a guardrail in a text.
"""

from functools import lru_cache
from typing import Any

import re2  # pyright: ignore[reportMissingTypeStubs]  # RE2 ships none

MAX_CHARACTERS = 500
MAX_SIZE = 10_000
"""Instructions of the compiled program: about a microsecond each to compile, here and in other engines."""

_MEMORY_BYTES = 1 << 20


def size(pattern: str | bytes) -> int | None:
    """How large the program of a pattern is; None for look-around, back references, and what is too large."""
    if len(pattern) > MAX_CHARACTERS:
        return None
    options = re2.Options()
    options.max_mem = _MEMORY_BYTES
    options.log_errors = False
    try:
        made = re2.compile(pattern, options)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # no stubs
        instructions = int(made.programsize)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]  # no stubs
    except (re2.error, UnicodeError):  # pyright: ignore[reportUnknownMemberType]  # RE2 ships no stubs
        return None
    return instructions if instructions <= MAX_SIZE else None


def is_accepted(pattern: str | bytes) -> bool:
    """True if the pattern has neither look-around nor back references and is not too large."""
    return size(pattern) is not None


class LinearPatterns:
    """The core's `PatternFinder`. The newest patterns stay compiled; safe to share between threads."""

    def is_found(self, pattern: str, text: str) -> bool:
        """See `PatternFinder.is_found`."""
        try:
            return _compiled(pattern).search(text) is not None
        except (re2.error, UnicodeError):  # pyright: ignore[reportUnknownMemberType]  # RE2 ships no stubs
            return True


@lru_cache(maxsize=1_000)
def _compiled(pattern: str) -> Any:  # noqa: ANN401 - RE2 ships no stubs
    options = re2.Options()
    options.max_mem = _MEMORY_BYTES
    options.log_errors = False
    return re2.compile(pattern, options)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # no stubs
