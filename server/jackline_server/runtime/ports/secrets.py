"""A value that must not be seen: an API key, a token, a password.

Owns the one type that carries such a value through the process. Does not own where secrets come from
(the operator's config) nor how text from outside is cleansed of them (`models.redaction`).
"""

import hmac
from typing import NoReturn, final


@final
class Secret:
    """A string that shows itself only when asked by name.

    Its repr, its str and its format are a mask; it can't be pickled. Equality takes constant time.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The value itself. Call this where it is used and keep it nowhere."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(***)"

    def __str__(self) -> str:
        return "***"

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(
            self._value.encode("utf-8", "surrogatepass"), other._value.encode("utf-8", "surrogatepass")
        )

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Secret can't be pickled or copied")
