"""What is wrong with a text that is no YAML, in words for whoever wrote it.

Owns the words for the mistakes that people make: tabs, indentation, what needs quotes, what is not closed.
Does not own finding them: a mark and the library's own words come from the parser.
"""

import yaml

_INDENTED = ("did not find expected key", "did not find expected '-' indicator")
_CLOSERS = {
    "while parsing a flow sequence": "the list that begins with `[` in line {} is not closed",
    "while parsing a flow mapping": "the mapping that begins with `{{` in line {} is not closed",
    "while scanning a quoted scalar": "the quoted text that begins in line {} is not closed",
}


def explained(text: str, error: yaml.MarkedYAMLError) -> str:
    """One line about an error of the parser."""
    mark, start = error.problem_mark, error.context_mark
    if mark is None:
        return error.problem or "the text is not YAML"
    line = _line(text, mark.line)
    if "\t" in line[: len(line) - len(line.lstrip())]:
        return "a tab can't indent; use spaces"
    first = not line[: mark.column].strip(" ")
    if error.problem in _INDENTED and start is not None and first and line.strip():
        return _misplaced(mark.column, start)
    return _by_problem(text, error, mark)


def _by_problem(text: str, error: yaml.MarkedYAMLError, mark: yaml.Mark) -> str:
    problem, context, start = error.problem or "", error.context or "", error.context_mark
    if problem.startswith("mapping values"):
        return _second_colon(text, mark.line)
    if problem == "could not find expected ':'" and start is not None:
        return f"line {start.line + 1} has no `:`; write `key: value`, or put a long text in quotes"
    if problem == "found character that cannot start any token":
        begin = _line(text, mark.line)[mark.column : mark.column + 1]
        return f"a text can't begin with `{begin}`; put it in quotes"
    if problem == "found unknown escape character":
        return "a text in double quotes has an unknown `\\` escape; write `\\\\`, or use single quotes"
    if context in _CLOSERS and start is not None:
        return _CLOSERS[context].format(start.line + 1)
    begun = f" ({context} that begins in line {start.line + 1})" if context and start is not None else ""
    return f"{problem}{begun}"


def _misplaced(column: int, start: yaml.Mark) -> str:
    if column == start.column:
        return f"a list's entry begins with `- `; the list began in line {start.line + 1}"
    return (
        f"this line is indented by {_spaces(column)}, and what it belongs to, from line {start.line + 1} on, "
        f"by {_spaces(start.column)}"
    )


def _second_colon(text: str, number: int) -> str:
    indent = _indent(_line(text, number))
    before = next((line for line in reversed(text.split("\n")[:number]) if line.strip()), "")
    if number and indent > _indent(before) and not before.rstrip().endswith(":"):
        return f"this line is indented by {_spaces(indent)}, but the line above it has its value already"
    if ":" not in before.partition("#")[0] and number:
        return "the line above has no `:`; write `key: value`"
    return "a text that holds `: ` needs quotes"


def _line(text: str, number: int) -> str:
    lines = text.split("\n")
    return lines[number] if number < len(lines) else ""


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _spaces(count: int) -> str:
    return "1 space" if count == 1 else f"{count} spaces"
