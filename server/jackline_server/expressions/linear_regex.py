"""Which patterns of users are accepted: what RE2 compiles in little memory, so that it runs in linear time.

Owns the only use of RE2. Does not own where patterns are matched.
"""

import re2  # pyright: ignore[reportMissingTypeStubs]  # RE2 ships none

MAX_CHARACTERS = 500
_MEMORY_BYTES = 1 << 20


def is_accepted(pattern: str | bytes) -> bool:
    """True if the pattern has neither look-around nor back references and is not too large."""
    if len(pattern) > MAX_CHARACTERS:
        return False
    options = re2.Options()
    options.max_mem = _MEMORY_BYTES
    options.log_errors = False
    try:
        re2.compile(pattern, options)  # pyright: ignore[reportUnknownMemberType]  # RE2 ships no stubs
    except (re2.error, UnicodeError):  # pyright: ignore[reportUnknownMemberType]  # RE2 ships no stubs
        return False
    return True
