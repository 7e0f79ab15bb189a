"""What of a config may be shown: by the looks of a text, by its place, and by where it came from.

Owns the rules, safest first: what is not plainly harmless becomes a mask. Does not own which settings are
secrets (`sections` and `connections` read those as such) nor who prints what.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

MASK = "***"

_LOOKS_SECRET = re.compile(
    r"\b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{12,}|\b(?:gh[opsur]|github_pat|hf)_[A-Za-z0-9_]{16,}"
    r"|\bxox[abeoprs]-[A-Za-z0-9-]{8,}|\bglpat-[A-Za-z0-9_-]{8,}|\bAIza[0-9A-Za-z_-]{20,}|\beyJ[A-Za-z0-9_-]{8,}\S*"
    r"|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|(?i:\bbearer)\s+\S+"
    # Long runs of letters and digits, with or without a dash: no word of a language looks so.
    r"|\b(?=[A-Za-z]*[0-9])(?=[0-9]*[A-Za-z])[A-Za-z0-9]{24,}\b|\b(?=\S*[0-9])[A-Za-z0-9_-]{40,}\b"
)
_NAMES_A_SECRET = re.compile(
    r"key|token|secret|pass|pw|pin\b|credential|auth|bearer|header|cookie|dsn|url|uri|env", re.IGNORECASE
)

_FLAG = re.compile(r"--?[A-Za-z]|--[A-Za-z][A-Za-z0-9]*(?:[-_][A-Za-z0-9]+)*|--", re.ASCII)
_LONGEST_FLAG = 40
_SCOPED_PACKAGE = re.compile(
    r"@[a-z][a-z0-9-]{0,40}/[a-z][a-z0-9._-]{0,60}(?:@(?:latest|next|\d{1,6}(?:\.\d{1,6}){0,3}))?", re.ASCII
)
_PROGRAM = re.compile(r"[\w./+-]*")

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(?=://)", re.ASCII)
_WEB = frozenset({"http", "https", "ws", "wss"})
_HOST = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?", re.ASCII)
_PLAIN_SEGMENT = re.compile(r"[a-z]{1,12}|v\d{1,3}(?:\.\d{1,3})?(?:(?:alpha|beta)\d{0,2})?|", re.ASCII)

_PLAIN_NAME = re.compile(r"[\w.!#$%&'*+^`|~-]*")
_LONGEST_NAME = 128


# --- by looks ----------------------------------------------------------------------------------


def masked(text: str) -> str:
    """The text without what looks like a secret; of a URL, its origin and the plain words of its path."""
    if "://" not in text:
        return _LOOKS_SECRET.sub(MASK, text)
    origin, path = _split(text)
    segments = [one if _PLAIN_SEGMENT.fullmatch(one) else MASK for one in path.split("/")]
    return origin + "/".join(segments)


def masked_name(name: str) -> str:
    """A key as a message may name it: up to the first character that no name has, and not too long."""
    plain = _PLAIN_NAME.match(name[:_LONGEST_NAME])
    shown = plain[0] if plain is not None else ""
    return _LOOKS_SECRET.sub(MASK, shown) + ("" if shown == name else MASK)


def _split(url: str) -> tuple[str, str]:
    """What may be shown of a URL up to its path, and the path with `?***` for all that follows it.

    The path is empty where the host can't be told from a user or a password: a slash in a password ends the
    host early, so that one `@` anywhere hides everything behind the scheme.
    """
    scheme = _SCHEME.match(url)
    if scheme is None:
        return MASK, ""
    hidden = f"{scheme[0]}://{MASK}"
    if scheme[0].lower() not in _WEB or "@" in url:
        return hidden, ""
    try:
        parts = urlsplit(url)
    except ValueError:
        return hidden, ""
    if _HOST.fullmatch(parts.netloc) is None:
        return hidden, ""
    origin = f"{scheme[0]}://{_LOOKS_SECRET.sub(MASK, parts.netloc)}"
    return (origin, parts.path) if url.endswith(parts.path) else (f"{origin}/{MASK}", "")


# --- commands ----------------------------------------------------------------------------------


def masked_command(words: Sequence[str]) -> list[str]:
    """The words of a command. Of those behind the program only what is plainly harmless is shown.

    That is: a flag without its value, an absolute path that is there, a package such as `@scope/name`, and of
    a web address its origin. None of them behind a flag whose name speaks of a secret. Looks at the disk.
    """
    shown = [_program(word) for word in words[:1]]
    hides = False
    for word in words[1:]:
        shown.append(MASK if hides else _word(word))
        hides = word.startswith("-") and "=" not in word and _NAMES_A_SECRET.search(word) is not None
    return shown


def _program(word: str) -> str:
    """A program, and not what stands behind it if somebody wrote a whole command line as one word."""
    plain = _PROGRAM.match(word)
    if os.path.lexists(word) or plain is None:
        return word
    return _LOOKS_SECRET.sub(MASK, plain[0]) + ("" if plain[0] == word else MASK)


def _word(word: str) -> str:
    flag, equals, _ = word.partition("=")
    is_flag = len(flag) <= _LONGEST_FLAG and _FLAG.fullmatch(flag) and not _LOOKS_SECRET.search(flag)
    if is_flag:
        return f"{flag}={MASK}" if equals else flag
    if _SCOPED_PACKAGE.fullmatch(word) and not _LOOKS_SECRET.search(word):
        return word
    if word.startswith("/") and os.path.lexists(word):
        return word
    if "://" in word and _SCHEME.match(word) is not None:
        origin, path = _split(word)
        return f"{origin}/{MASK}" if path.strip("/") else origin
    return MASK


# --- by where it came from ---------------------------------------------------------------------

_NO_SECRET = re.compile(
    r"|[+-]?\d{0,9}(?:\.\d{0,6})?(?:ms|s|m|h|d)?|true|false|yes|no|auto|openai|litellm|scripted|http|mcp|stdio|tools"
    r"|json_schema|streaming|workflows|connections|models|config|data|lock",
    re.IGNORECASE | re.ASCII,
)
_SHORT = 4
_TELLING_PIECE = 8
_TELLING_PARENTS = 2


class Veil:
    """Takes hidden values out of texts that are about to be shown, with what is made of them on the way.

    Made of the values that came by a reference, by a variable of a section, or as a secret. A number, a time
    or a word that the config itself knows stays: it tells nothing, and stands everywhere.
    """

    def __init__(self, hidden: Iterable[str]) -> None:
        forms = {form for value in hidden for form in _forms(value) if not _NO_SECRET.fullmatch(form)}
        longest_first = sorted(forms, key=lambda form: (-len(form), form))
        self._forms = re.compile("|".join(map(_bounded, longest_first)), re.IGNORECASE) if forms else None

    def over(self, text: str) -> str:
        """The text with a mask for each of them."""
        return text if self._forms is None else self._forms.sub(MASK, text)


def _bounded(form: str) -> str:
    """Short ones count as whole words only: else a value of one letter would mask every such letter."""
    return re.escape(form) if len(form) >= _SHORT else rf"(?<!\w){re.escape(form)}(?!\w)"


def _forms(value: str) -> Iterator[str]:
    """A value as it may be met: itself, as a path and folders above, a URL's host, a header's words."""
    value = value.strip()
    yield value
    yield from (piece for piece in value.split() if len(piece) >= _TELLING_PIECE)
    if "://" in value:
        try:
            parts = urlsplit(value)
        except ValueError:
            return
        yield from (piece for piece in (parts.hostname, parts.username, parts.password) if piece)
    elif "/" in value:
        path = Path(value)
        yield from (str(one) for one in (path, *path.parents) if len(one.parts) > _TELLING_PARENTS)
        yield path.name
