"""What is wrong with an expression that does not compile: slips from other languages, the compiler's words.

Owns hints for whoever writes an expression, and the words for what the compiler says of it. Does not own
whether it is valid: that is the compiler's word.
"""

import re
from collections.abc import Sequence

from jackline_server.expressions.cel_cost import Token

_SLIPS = {
    "=": "`=` is no operator; did you mean `==`?",
    "&": "`&` is no operator; did you mean `&&`?",
    "|": "`|` is no operator; did you mean `||`?",
    "and": "`and` is no operator; did you mean `&&`?",
    "or": "`or` is no operator; did you mean `||`?",
    "not": "`not` is no operator; did you mean `!`?",
    "AND": "`AND` is no operator; did you mean `&&`?",
    "OR": "`OR` is no operator; did you mean `||`?",
    "NOT": "`NOT` is no operator; did you mean `!`?",
    "is": "`is` is no operator; did you mean `==`?",
}
_LONGEST_ECHO = 40
_LONGEST_SAYING = 200
_SAYING = re.compile(r"<input>:(\d+):(\d+): (.*)")
_PARSER = re.compile(
    r"""Syntax\ error:\ (?:
        (?P<odd>mismatched|extraneous)\ input\ '(?P<token>.*?)'\ expecting\ (?P<wanted>.*)
      | missing\ '(?P<missing>.+?)'\ at\ '(?P<before>.*)'
      | no\ viable\ alternative\ at\ input\ '(?P<stuck>.*)'
      | token\ recognition\ error\ at:\ '(?P<unread>.*)'
    )""",
    re.VERBOSE,
)
_END = "<EOF>"


def slip(tokens: Sequence[Token]) -> str:
    """What an expression that does not compile likely got wrong, or nothing."""
    for index, token in enumerate(tokens):
        member = index > 0 and tokens[index - 1].text == "."
        if token.kind in ("sign", "name") and token.text in _SLIPS and not member:
            near = " ".join(one.text for one in tokens[max(0, index - 3) : index + 2])
            return f"{_SLIPS[token.text]} (at `{near[:80]}`)"
    return ""


def said_plainly(said: str) -> str:
    """What the library says of an expression, in a sentence with the place; the grammar is left out."""
    if "Recursion limit" in said:
        return "the expression is nested too deep"
    if found := _SAYING.search(said):
        line, column, words = found.groups()
        return f"at line {line}, character {column}: {_words(words)}"[:_LONGEST_SAYING]
    return said.split("\n", 1)[0].rsplit("ERROR: ", 1)[-1][:_LONGEST_SAYING]


def _words(said: str) -> str:
    if said.startswith("Incomplete `"):
        return "the expression is not complete"
    found = _PARSER.match(said)
    if found is None:
        return said.removeprefix("Syntax error: ")
    token, missing, before, stuck, unread = found.group("token", "missing", "before", "stuck", "unread")
    if missing is not None:
        return f"`{missing}` is missing {'at the end' if before == _END else f'before {_echo(before)}'}"
    if unread is not None:
        if unread[:1] in ("'", '"'):
            return f"the text {_echo(unread)} has no end, or an escape that there is not"
        return f"{_echo(unread)} is no part of an expression"
    if token == _END:
        return "the expression ends where a value is wanted"
    if token is not None and found["wanted"] == _END:
        return f"{_echo(token)} is left over; an operator may be missing before it"
    return f"{_echo(token or stuck)} can't stand here"


def _echo(text: str) -> str:
    return f"`{text if len(text) <= _LONGEST_ECHO else text[:_LONGEST_ECHO] + '…'}`"
