"""Texts that look like secrets: they live in the operator's config, never in a workflow.

Owns the patterns. Does not own what follows from a find; the value itself is never part of it.
"""

import re
from collections.abc import Iterator

from jackline_server.definitions.yaml_nodes import Mark

_PATTERNS = {
    "an API key": r"\bsk-(?=[A-Za-z_-]{0,200}[0-9])[A-Za-z0-9_-]{16,}",
    "a Slack token": r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}|\bxapp-[A-Za-z0-9-]{10,}",
    "an AWS key id": r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    "a private key": r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY",
    "a GitHub token": r"\bgh[opsur]_[A-Za-z0-9]{30,}|\bgithub_pat_[A-Za-z0-9_]{20,}",
    "a GitLab token": r"\bglpat-[A-Za-z0-9_-]{18,}",
    "a Google API key": r"\bAIza[0-9A-Za-z_-]{30,}",
    "a Stripe key": r"\b[rs]k_live_[0-9A-Za-z]{16,}",
    "a Hugging Face token": r"\bhf_[A-Za-z0-9]{30,}",
    "a JSON web token": r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}",
    "a bearer token": r"(?i:\bbearer)[ \t]+[A-Za-z0-9._~+/=-]{20,}",
    "a password in an address": r"\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@{}]{1,64}:[^\s/@{}]{1,128}@",
}
_SECRETS = re.compile(
    "|".join(f"(?P<k{index}>{pattern})" for index, pattern in enumerate(_PATTERNS.values()))
)
_KINDS = tuple(_PATTERNS)
_WINDOW = 16 * 1024
_OVERLAP = 2 * 1024
"""A line is searched piece by piece: one search can't be interrupted, and takes a microsecond a character."""


def find(text: str) -> Iterator[tuple[str, Mark]]:
    """What kind of secret stands where, at most one a line."""
    for number, line in enumerate(text.split("\n"), start=1):
        for start in range(0, max(1, len(line) - _OVERLAP), _WINDOW - _OVERLAP):
            if found := _SECRETS.search(line, start, start + _WINDOW):
                yield _KINDS[int(str(found.lastgroup)[1:])], Mark(number, found.start() + 1)
                break


def masked(text: str) -> str:
    """The text with every secret replaced."""
    return _SECRETS.sub("[secret]", text)
