"""What a sound expression names, read from its tokens: the members it reads, the texts it compares them with.

Owns what is certain without a syntax tree, and leaves out the rest: members that are written out, and
comparisons of nothing but such members with plain texts. Does not own which names there are.
"""

from collections.abc import Iterator, Sequence

from jackline_server.core.frozen import frozen
from jackline_server.expressions.cel_cost import Macro, Shape, Token

EACH = "*"
"""Stands in a path for any element of a list that a macro goes through."""

_LONGEST_PATH = 8
_NEAR = 3
"""So many tokens beside a chain say whether it is held against a text."""
_TO_VARIABLE = 3
"""So many tokens behind the dot of a macro its variable is named."""
_EQUALS = ("==", "!=")
_BEFORE = ("(", "[", ",", "&&", "||", "?", ":")
_AFTER = (")", "]", ",", "&&", "||", "?", ":")
"""What a comparison can stand between without being part of something larger."""


@frozen
class Chain:
    """Members one after the other, as `a.b["c"]`: their names, and the tokens from `begin` to `end`."""

    path: tuple[str, ...]
    begin: int
    end: int


def member_paths(tokens: Sequence[Token]) -> Iterator[tuple[str, ...]]:
    """Every chain of members that is written out, from its first name; calls end a chain before them."""
    return (chain.path for chain in _chains(tokens))


def element_paths(found: Shape) -> Iterator[tuple[str, ...]]:
    """What is read of the elements of lists: `a.b.all(x, x.c)` as `("a", "b", EACH, "c")`."""
    return (chain.path for chain in _resolved(found) if EACH in chain.path)


def comparisons(found: Shape) -> Iterator[tuple[tuple[str, ...], str]]:
    """The chains, those of elements too, that are held against a text as a whole, each with the text."""
    for chain in _resolved(found):
        for text in _compared(found.tokens, chain):
            yield chain.path, text


def _chains(tokens: Sequence[Token]) -> Iterator[Chain]:
    for index, token in enumerate(tokens):
        follows = index > 0 and tokens[index - 1].text == "."
        if token.kind == "name" and not follows:
            yield _chain(tokens, index)


def _chain(tokens: Sequence[Token], begin: int) -> Chain:
    path = [tokens[begin].text]
    index = begin + 1
    for _ in range(_LONGEST_PATH):
        match tokens[index : index + 3]:
            case (Token(text="."), Token(kind="name", text=name), *after) if not _is_call(after):
                path.append(name)
                index += 2
            case (Token(text="["), Token(kind="string", text=literal), Token(text="]")):
                key = _plain(literal)
                if key is None:
                    break
                path.append(key)
                index += 3
            case _:
                break
    return Chain(path=tuple(path), begin=begin, end=index)


def _is_call(after: Sequence[Token]) -> bool:
    return bool(after) and after[0].text == "("


def _resolved(found: Shape) -> Iterator[Chain]:
    """The chains, with the list in the place of a loop's variable; without those of other lists."""
    chains = list(_chains(found.tokens))
    lists = {chain.end: chain.path for chain in chains}
    for chain in chains:
        loop = next((macro for macro in found.macros if _is_inside(chain, macro)), None)
        if loop is None:
            yield chain
        elif loop.begin in lists and chain.begin > loop.begin + _TO_VARIABLE:
            yield Chain(path=(*lists[loop.begin], EACH, *chain.path[1:]), begin=chain.begin, end=chain.end)


def _is_inside(chain: Chain, macro: Macro) -> bool:
    """True if the chain begins with the loop's variable, inside of its loop."""
    body = macro.begin + _TO_VARIABLE
    return chain.path[0] == macro.variable and body <= chain.begin < body + len(macro.body)


def _compared(tokens: Sequence[Token], chain: Chain) -> Iterator[str]:
    before = tokens[max(0, chain.begin - _NEAR) : chain.begin]
    after = tokens[chain.end : chain.end + _NEAR]
    if _opens(before):
        match after:
            case (Token(text=sign), Token(kind="string", text=literal), *rest) if sign in _EQUALS:
                yield from _texts([literal] if _closes(rest) else [])
            case (Token(text="in"), Token(text="["), *_):
                yield from _texts(_listed(tokens[chain.end + 2 :]))
            case _:
                return
    elif _closes(after):
        match before:
            case (*rest, Token(kind="string", text=literal), Token(text=sign)) if sign in _EQUALS:
                yield from _texts([literal] if _opens(rest) else [])
            case _:
                return


def _listed(tokens: Sequence[Token]) -> list[str]:
    """The literals of a list of nothing but texts, from behind its bracket; none if it is another list."""
    end = next((index for index, token in enumerate(tokens) if token.text == "]"), 0)
    inside = tokens[:end]
    texts, commas = inside[::2], inside[1::2]
    sound = all(one.kind == "string" for one in texts) and all(one.text == "," for one in commas)
    return [one.text for one in texts] if sound and _closes(tokens[end + 1 :]) else []


def _opens(before: Sequence[Token]) -> bool:
    return not before or before[-1].text in _BEFORE


def _closes(after: Sequence[Token]) -> bool:
    return not after or after[0].text in _AFTER


def _texts(literals: Sequence[str]) -> Iterator[str]:
    return (text for literal in literals if (text := _plain(literal)) is not None)


def _plain(literal: str) -> str | None:
    """The text of a plain literal, without escapes; others are not looked into."""
    if "\\" in literal or literal[:1] not in ("'", '"') or literal[:3] in ('"""', "'''"):
        return None
    return literal[1:-1]
