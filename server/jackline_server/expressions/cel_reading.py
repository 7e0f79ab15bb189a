"""What an expression says, read from its tokens: the members it names, and slips from other languages.

Owns hints for whoever writes an expression. Does not own whether it is valid: that is the compiler's word.
"""

from collections.abc import Iterator, Sequence

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
_LONGEST_PATH = 8


def slip(tokens: Sequence[Token]) -> str:
    """What an expression that does not compile likely got wrong, or nothing."""
    for index, token in enumerate(tokens):
        member = index > 0 and tokens[index - 1].text == "."
        if token.kind in ("sign", "name") and token.text in _SLIPS and not member:
            near = " ".join(one.text for one in tokens[max(0, index - 3) : index + 2])
            return f"{_SLIPS[token.text]} (at `{near[:80]}`)"
    return ""


def member_paths(tokens: Sequence[Token]) -> Iterator[tuple[str, ...]]:
    """Every chain of members that is written out, from its first name; calls end a chain before them."""
    for index, token in enumerate(tokens):
        follows = index > 0 and tokens[index - 1].text == "."
        if token.kind == "name" and not follows:
            yield tuple(_chain(tokens, index))


def _chain(tokens: Sequence[Token], start: int) -> Iterator[str]:
    yield tokens[start].text
    index = start + 1
    for _ in range(_LONGEST_PATH):
        match tokens[index : index + 4]:
            case (Token(text="."), Token(kind="name", text=name), Token(text=after), *_) if after != "(":
                yield name
                index += 2
            case (Token(text="."), Token(kind="name", text=name)):
                yield name
                return
            case (Token(text="["), Token(kind="string", text=literal), Token(text="]"), *_):
                key = _key(literal)
                if key is None:
                    return
                yield key
                index += 3
            case _:
                return


def _key(literal: str) -> str | None:
    """The text of a plain literal, without escapes; others are not looked into."""
    if "\\" in literal or literal[:1] not in ("'", '"') or literal[:3] in ('"""', "'''"):
        return None
    return literal[1:-1]
