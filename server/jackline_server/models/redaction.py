"""Text that came from a provider, made fit for a log.

Owns what is taken out of it: keys, addresses, echoes of the conversation, control characters, and all
beyond a length. Pure. Errs on the side of taking out too much: the text is a hint for a person.
"""

import re
from collections.abc import Iterable, Sequence

MESSAGE_CHARS = 500
"""The longest message that a failure carries."""

_EXAMINED_CHARS = 4_000
_ECHO_CHARS = 12
_SHORT_ECHO_CHARS = 4
_REDACTED = "[redacted]"
_ADDRESS = "[address]"

_KEYS = re.compile(
    r"""
    (?:bearer|basic)\s+[^\s"',;]+
  | (?:api[-_ ]?key|token|secret|password|authorization)["']?\s*[=:]\s*["']?[^\s"',;]+
  | \b(?:sk|pk|rk|gsk|xai|hf|ghp|gho|pplx|key|tok|api|org|proj)[-_][\w*.\-]{4,}
  | \bAIza[\w\-]{8,}
  | \bAKIA[A-Z0-9]{8,}
  | \beyJ[\w\-]{4,}(?:\.[\w\-]*)*
  | (?<![\w.\-])[\w.\-]*+\*{3,}[\w.\-*]*
  | -----BEGIN[^-]*-----.*?(?:-----END[^-]*-----|$)
    """,
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
_LONG_RUN = re.compile(r"[A-Za-z0-9+/_=\-]{24,}")
_ADDRESSES = re.compile(
    r"""
    \b[a-z][a-z0-9+.\-]{0,30}+://[^\s"'<>]+
  | \b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b
  | \[(?=[0-9a-f.%]*+:)[0-9a-f:.%]++\](?::\d+)?
  | \b(?:[0-9a-f]{1,4}:){3,7}[0-9a-f]{0,4}\b
  | \blocalhost(?::\d+)?\b
  | \b(?:[a-z0-9\-]{1,63}\.){1,10}[a-z]{2,}:\d+\b
  | \b(?:[a-z0-9\-]{1,63}\.){1,10}(?:com|net|org|io|ai|dev|app|cloud|internal|local|corp|lan|test|example)\b
    """,
    re.IGNORECASE | re.VERBOSE,
)


def safe_message(text: str, *, secrets: Iterable[str] = (), said: Sequence[str] = ()) -> str:
    """The text without keys, addresses and control characters, at most 500 characters.

    `secrets` are values to take out wherever they stand. `said` is what the conversation holds: a text that
    repeats any of it is given up as a whole, and the answer is empty.
    """
    text = text[:_EXAMINED_CHARS]
    if _repeats(text, said):
        return ""
    for secret in secrets:
        if secret:
            text = text.replace(secret, _REDACTED)
    text = _KEYS.sub(_REDACTED, text)
    text = _ADDRESSES.sub(_ADDRESS, text)
    text = _LONG_RUN.sub(_hide_run, text)
    return printable(" ".join(text.split()))[:MESSAGE_CHARS]


def printable(text: str) -> str:
    """The text with every character that is not printable written as an escape."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escape(char) for char in text)


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def _hide_run(match: re.Match[str]) -> str:
    """A long run with a digit and a letter in it looks like a key; a long word does not."""
    run = match.group()
    looks_random = any(char.isdigit() for char in run) and any(char.isalpha() for char in run)
    return _REDACTED if looks_random else run


def _repeats(text: str, said: Sequence[str]) -> bool:
    """True if the text holds a whole short message, or 17 characters in a row of any message.

    Windows of 12 characters, six apart, find every run of 17; that is at most 700 searches.
    """
    if any(_SHORT_ECHO_CHARS <= len(part) <= _ECHO_CHARS + 5 and part in text for part in said):
        return True
    flat = " ".join(text.split())
    windows = [
        window
        for start in range(0, max(len(flat) - _ECHO_CHARS + 1, 0), _ECHO_CHARS // 2)
        if " " in (window := flat[start : start + _ECHO_CHARS]) or any(c.isdigit() for c in window)
    ]
    for part in said:
        body = " ".join(part.split())
        if any(window in body for window in windows):
            return True
    return False
