"""Whether a text says anything at all.

Owns the one meaning of a required text, for whoever asks for one: a person's words, a worker's, a reason.
"""

import unicodedata

_UNSEEN_CATEGORIES = frozenset({"Cc", "Cf"})
"""Control characters, and what only shapes what stands beside it: without a width, marks of direction."""

_UNSEEN = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"
    + "".join(map(chr, range(0xFE00, 0xFE10)))
    + "".join(map(chr, range(0xE0100, 0xE01F0)))
)
"""Letters and marks that nobody sees: fillers, the blank of Braille, selectors of a variant."""


def is_blank(text: str) -> bool:
    """True if nothing of it can be seen: no character, or white space and the like alone."""
    return all(_is_unseen(one) for one in set(text))


def _is_unseen(character: str) -> bool:
    return (
        character.isspace() or unicodedata.category(character) in _UNSEEN_CATEGORIES or character in _UNSEEN
    )
