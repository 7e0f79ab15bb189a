"""A statement of SQL as a text with `{{ name }}` in it: what of it is code, and where values may stand.

Owns the little that has to be known before a database reads the statement: quotes, comments, its first word.
Owns no grammar: what a statement does is the database's to say, and what it may do the transaction's. Values
are never put into the text; a driver's marker is, so that nothing here decides whether one is safe.
"""

import re
from collections.abc import Callable, Iterator

from jackline_server.core import templates
from jackline_server.core.frozen import frozen

CALL_KEY = "_call_key"
"""The name that stands for the idempotency key of the call, in any statement."""

READS = frozenset({"SELECT", "WITH", "VALUES", "TABLE", "SHOW", "EXPLAIN"})
WRITES = frozenset({"INSERT", "UPDATE", "DELETE", "MERGE", "REPLACE"})

_LEXEME = re.compile(
    r"(?P<line>--[^\n]*)"
    r"|(?P<block>/\*)"
    r"|(?P<escaped>\b[eE]'(?:[^'\\]|\\.|'')*')"
    r"|(?P<text>'(?:[^']|'')*')"
    r'|(?P<name>"(?:[^"]|"")*"|`(?:[^`]|``)*`)'
    r"|(?P<dollar>\$(?P<tag>(?:[A-Za-z_]\w*)?)\$.*?\$(?P=tag)\$)"
    r"|(?P<open>'|\"|`)"
    r"|(?P<template>\{\{.*?\}\})"
    r"|(?P<cast>::)"
    r"|(?P<marker>:[A-Za-z_]\w*|\$\d+)"
    r"|(?P<word>[A-Za-z_]\w*)"
    r"|(?P<end>;)"
    r"|(?P<space>\s+)"
    r"|(?P<other>.)",
    re.DOTALL,
)
_QUOTED = frozenset({"line", "block", "escaped", "text", "name", "dollar"})


class SqlProblem(ValueError):
    """The text is no statement that can be run. The message is for the person who wrote it."""


@frozen
class Statement:
    """What is known of a statement: its first word in capitals, and whether it says that it returns rows."""

    verb: str
    returns: bool

    @property
    def writes(self) -> bool:
        """True if its first word says that it changes something. Others may change something all the same."""
        return self.verb in WRITES


def read_statement(text: str) -> Statement:
    """Check a statement as far as its text goes.

    Raises:
        SqlProblem: more than one, none, one that is not about rows, a quote without its end, a value inside
            quotes or a comment, a parameter in another form than `{{ name }}`.
    """
    verb = ""
    ended = returns = False
    for kind, piece in _lexemes(text):
        _check_piece(kind, piece)
        if kind == "end":
            ended = True
        elif kind not in ("line", "block", "space"):
            if ended:
                raise SqlProblem("a step runs one statement; this is another one behind `;`")
            if piece != "(":
                verb = verb or piece.upper()
            returns = returns or piece.upper() == "RETURNING"
    if verb not in READS | WRITES:
        known = ", ".join(sorted(READS | WRITES))
        raise SqlProblem(f"a statement begins with one of {known}")
    return Statement(verb=verb, returns=returns or verb in READS)


def _check_piece(kind: str, piece: str) -> None:
    if kind in _QUOTED and "{{" in piece:
        raise SqlProblem(
            "`{{ … }}` stands inside quotes or a comment, where it is text: take the quotes away, and "
            "join it to other text with ||"
        )
    if kind == "open":
        raise SqlProblem(f"a quote {piece} is never closed")
    if kind == "marker":
        raise SqlProblem(f"a parameter is written `{{{{ name }}}}`, not `{piece}`")


def marked(text: str, marker: Callable[[int], str], literal: Callable[[str], str]) -> tuple[str, list[str]]:
    """The statement with a driver's marker for each name, and the names by number.

    A name that stands twice has one number. `literal` escapes what a driver would read in the rest.

    Raises:
        TemplateError: the text is malformed.
    """
    numbers: dict[str, int] = {}
    made: list[str] = []
    for part in templates.parse(text):
        if isinstance(part, templates.Literal):
            made.append(literal(part.text))
        else:
            made.append(marker(numbers.setdefault(part.name, len(numbers))))
    return "".join(made), list(numbers)


def _lexemes(text: str) -> Iterator[tuple[str, str]]:
    place = 0
    while place < len(text):
        match = _LEXEME.match(text, place)
        if match is None:  # the last alternative takes anything
            raise SqlProblem("it can't be read")
        kind = match.lastgroup or "other"
        if kind == "tag":
            kind = "dollar"
        end = match.end()
        if kind == "block":
            end = _end_of_comment(text, end)
        yield kind, text[place:end]
        place = end


def _end_of_comment(text: str, place: int) -> int:
    """Where a comment ends that began before `place`; comments nest."""
    depth = 1
    for mark in re.finditer(r"/\*|\*/", text[place:]):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return place + mark.end()
    raise SqlProblem("a comment /* is never closed")
