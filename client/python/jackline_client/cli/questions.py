"""A question in lines for a person, and what is said in it of its options.

Owns telling the question itself from the lines at its end that explain its options, as a server writes them:
`option: what it means`. Does not own the commands that answer it (`wording`).
"""

from collections.abc import Iterator, Mapping, Sequence

from jackline_client.cli.printable import printable_lines

_MOST_LINES = 40


def question_lines(question: str, options: Sequence[str], *, limit: int) -> Iterator[str]:
    """Yields the question without what it says of its options.

    Lines after the first are marked: what a stranger wrote looks like no line of ours.
    """
    first, *more = printable_lines("\n".join(_parted(question, options)[0]), limit=limit, lines=_MOST_LINES)
    yield first
    yield from (f"| {line}" for line in more)


def meanings(question: str, options: Sequence[str]) -> Mapping[str, str]:
    """What the question says of its options, by option."""
    return _parted(question, options)[1]


def _parted(question: str, options: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    lines = question.split("\n")
    found: dict[str, str] = {}
    while len(lines) > 1:
        option, separator, meaning = lines[-1].partition(": ")
        if not separator or option not in options or option in found:
            break
        found[option] = meaning
        lines.pop()
    return lines, found
