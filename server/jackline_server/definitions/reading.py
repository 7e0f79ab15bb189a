"""From the tree of a file to its shapes, with every mismatch as a finding at its place.

Owns the words of such findings: unknown keys with the nearest name, keys and values that are not built, wrong
types. Does not own the shapes (`shapes`) or what they mean together.
"""

import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from jackline_server.core.plan import RESERVED_SIGNALS
from jackline_server.definitions.catalog import nearest
from jackline_server.definitions.key_places import elsewhere, keys, shape_in
from jackline_server.definitions.report import MAX_FINDINGS, Report
from jackline_server.definitions.shapes import (
    KINDS,
    AgentShape,
    AnyStep,
    Shape,
    WorkflowShape,
)
from jackline_server.definitions.yaml_nodes import MapNode, Path, Plain, ScalarNode, plain

_AnyShape = typing.TypeVar("_AnyShape", bound=Shape)

_DEVICES = frozenset(
    {"con", "prn", "aux", "nul"} | {f"{name}{number}" for name in ("com", "lpt") for number in range(1, 10)}
)
"""Names that some systems don't allow for a file or folder."""

_CODES = {
    "bad_duration": "bad_duration",
    "blank_text": "blank_text",
    "bad_money": "bad_money",
    "bad_share": "bad_share",
    "bad_pointer": "bad_pointer",
    "bad_tool": "bad_tool",
    "bad_condition": "bad_condition",
    "bad_guardrail": "bad_guardrail",
    "bad_rule": "bad_rule",
}
_NO_KEYS = frozenset(
    {
        "[key]",
        "CompactionShape",
        "NamedToolShape",
        "OptionShape",
        "PiiShape",
        "PolicyUseShape",
        "PruneShape",
        "StopFunctionShape",
        "bool",
        "constrained-str",
        "dict[str,any]",
    }
)
"""Members of unions, as pydantic names them in a location."""

_WANTED = {
    "string_type": "a text is wanted here; put it in quotes if it looks like a number",
    "int_type": "a whole number is wanted here, without quotes",
    "int_from_float": "a whole number is wanted here",
    "bool_type": "true or false is wanted here",
    "tuple_type": "a list is wanted here",
    "dict_type": "a mapping is wanted here",
    "model_type": "a mapping is wanted here",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A file whose keys and types are right. `top.steps` is not read any more; `steps` are.

    Where the tools of a step are not those of the file, `places` has the index of each in it.
    """

    top: WorkflowShape
    steps: Mapping[str, AnyStep]
    places: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])

    def tool_places(self, step_id: str) -> dict[str, int]:
        """Where in the file's `tools` of a step the entry of each of its tools stands."""
        step = self.steps[step_id]
        refs = [entry.ref for entry in step.tools] if isinstance(step, AgentShape) else []
        return dict(zip(refs, self.places.get(step_id) or count(), strict=False))


def read(root: MapNode, report: Report) -> Draft | None:
    """The shapes of a file, or None with at least one error in the report."""
    top = validated(WorkflowShape, plain(root), (), report)
    steps: dict[str, AnyStep] = {}
    node = root.get("steps")
    if isinstance(node, MapNode):
        for entry in node.entries:
            step = _step(entry.key, entry.value, report) if _is_named(entry.key, report) else None
            if step is not None:
                steps[entry.key] = step
    if isinstance(top, WorkflowShape) and top.name in _DEVICES:
        report.error("bad_name", f"`{top.name}` can't name a folder everywhere; take another name", ("name",))
    if not isinstance(top, WorkflowShape) or report.has_errors:
        return None
    return Draft(top=top, steps=steps)


def _is_named(name: str, report: Report) -> bool:
    path: Path = ("steps", name)
    if name in RESERVED_SIGNALS or name in _DEVICES:
        report.error("reserved_name", f"`{name}` is a reserved name; take another one", path, of_key=True)
        return False
    fits = 0 < len(name) <= 63 and name[0].islower() and name.isascii()  # noqa: PLR2004  # the pattern says so too
    if not fits or not name.replace("_", "a").isalnum() or name != name.lower():
        message = "a step's name is a lower-case letter, then lower-case letters, digits and `_`, at most 63"
        report.error("bad_name", message, path, of_key=True)
        return False
    return True


def _step(name: str, node: object, report: Report) -> AnyStep | None:
    path: Path = ("steps", name)
    if not isinstance(node, MapNode):
        report.error("bad_type", f"the step `{name}` is a mapping with a `kind`", path)
        return None
    kind = node.get("kind")
    if kind is None:
        report.error(
            "missing_key", f"the step `{name}` needs a `kind`: {', '.join(KINDS)}", path, of_key=True
        )
        return None
    if not isinstance(kind, ScalarNode) or not isinstance(kind.value, str):
        report.error("bad_type", "a kind is a name", (*path, "kind"))
        return None
    shape = KINDS.get(kind.value)
    if shape is None:
        message = f"there is no kind `{kind.value[:64]}`{nearest(kind.value, KINDS)}"
        report.error("bad_value", message, (*path, "kind"))
        return None
    return validated(shape, plain(node), path, report)


def validated(
    shape: type[_AnyShape],
    value: Plain,
    path: Path,
    report: Report,
    *,
    place_of: Callable[[Path], str] = elsewhere,
) -> _AnyShape | None:
    """The value as its shape, or None with at least one error in the report.

    `place_of` says, for a key that is nowhere here, where else in such a file it stands; empty if nowhere.
    """
    try:
        return shape.model_validate(value)
    except ValidationError as error:
        for detail in error.errors(include_url=False, include_input=True)[: MAX_FINDINGS + 1]:
            _explain(shape, detail, path, report, place_of)
    return None


def _explain(
    shape: type[Shape], detail: ErrorDetails, base: Path, report: Report, place_of: Callable[[Path], str]
) -> None:
    inner = _inner_path(detail["loc"])
    path: Path = (*base, *inner)
    kind = detail["type"]
    key = str(inner[-1]) if inner else ""
    if kind == "extra_forbidden":
        _unknown_key(_owner(shape, inner[:-1]), path, report, place_of)
    elif kind == "missing":
        report.error("missing_key", f"`{key}` is missing here", path)
    elif kind == "literal_error":
        _bad_value(detail, path, report)
    elif kind in ("too_short", "too_long"):
        _wrong_length(detail, path, report)
    elif kind == "string_pattern_mismatch":
        pattern = detail.get("ctx", {}).get("pattern", "")
        report.error("bad_name", f"a name like this fits {pattern}", path, of_key="[key]" in detail["loc"])
    elif kind == "model_type" and isinstance(detail["input"], str) and path[-2:-1] == ("tools",):
        report.error("bad_type", f"a tool is a mapping: write `{{ref: {detail['input'][:64]}}}`", path)
    elif kind in _WANTED:
        report.error("bad_type", _WANTED[kind], path)
    else:
        report.error(*_code_and_words(detail), path, of_key="[key]" in detail["loc"])


def _code_and_words(detail: ErrorDetails) -> tuple[str, str]:
    kind = detail["type"]
    if kind not in _RANGES:
        return _CODES.get(kind, "bad_value"), detail["msg"]
    limit, words = _RANGES[kind]
    return "out_of_range", words.format(detail.get("ctx", {}).get(limit))


_RANGES = {
    "greater_than": ("gt", "more than {} is wanted here"),
    "greater_than_equal": ("ge", "{} or more is wanted here"),
    "less_than": ("lt", "less than {} is wanted here"),
    "less_than_equal": ("le", "{} or less is wanted here"),
    "string_too_short": ("min_length", "at least {} characters are wanted here"),
    "string_too_long": ("max_length", "at most {} characters are wanted here"),
}
"""What a kind of error names its limit, and the words around it."""


_INSTEAD = "; a run gets one when it starts: `deadline` of StartRun, `jackline run --deadline`"


def _unknown_key(
    owner: type[Shape] | None, path: Path, report: Report, place_of: Callable[[Path], str]
) -> None:
    key = str(path[-1])
    if owner is not None and key in owner.not_built:
        instead = _INSTEAD if path == ("bounds", "deadline") else ""
        report.error("not_built", f"`{key}` is not built yet{instead}", path, of_key=True)
        return
    hint = place_of(path) or nearest(key, keys(owner) if owner is not None else ())
    report.error("unknown_key", f"`{key[:64]}` is not a known key here{hint}", path, of_key=True)


def _wrong_length(detail: ErrorDetails, path: Path, report: Report) -> None:
    """Entries that failed by themselves don't count, so an input may seem too short without being it."""
    least, most = detail.get("ctx", {}).get("min_length", 0), detail.get("ctx", {}).get("max_length")
    if len(detail["input"]) >= least and most is None:
        return
    number = most if most is not None else least
    wanted = f"at most {number}" if most is not None else f"at least {number}"
    noun = "entry is" if number == 1 else "entries are"
    report.error("out_of_range", f"{wanted} {noun} wanted here", path)


def _bad_value(detail: ErrorDetails, path: Path, report: Report) -> None:
    expected = detail.get("ctx", {}).get("expected", "another value")
    report.error("bad_value", f"wanted here: {expected}", path)


def _inner_path(loc: tuple[int | str, ...]) -> Path:
    """The path of the file inside pydantic's location, which also names members of unions."""
    return tuple(part for part in loc if not (isinstance(part, str) and _is_no_key(part)))


def _is_no_key(part: str) -> bool:
    return part.startswith(("literal[", "tuple[")) or part in _NO_KEYS


def _owner(shape: type[Shape], path: Path) -> type[Shape] | None:
    """The shape that a path inside `shape` leads to, if it leads to one."""
    current: object = shape
    for part in path:
        found = shape_in(current)
        if found is not None and isinstance(part, str):
            current = keys(found).get(part)
        elif isinstance(part, str):
            current = None
    return shape_in(current)
