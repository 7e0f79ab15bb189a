"""Stop conditions of a workflow, composed in Python: `&`, `|` and `~` over leaves.

    from jackline_client.conditions import elapsed, iterations, tool_called

    stop = (tool_called("issue_refund", success=True) & iterations(2)) | elapsed("2m")
    workflow["steps"]["handle"]["stop_when"] = stop.to_dict()

Owns the form that a workflow file has for them. Whether a condition fits its step (its tools, outcomes and
bounds) is the server's to say, when the workflow is validated or put. Needs neither a server nor gRPC.
"""

import json
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NoReturn

Plain = dict[str, Any]
"""A condition as a workflow file holds it: one key, and its value of plain JSON types."""

__all__ = [
    "Condition",
    "all_of",
    "any_of",
    "confidence",
    "cost_usd",
    "elapsed",
    "expression",
    "function",
    "iterations",
    "no_tool_calls",
    "none_of",
    "outcome_is",
    "text_mention",
    "tokens",
    "tool_called",
]


@dataclass(frozen=True, slots=True)
class _AtLeast:
    gte: float | str


@dataclass(frozen=True, slots=True)
class _Fields:
    """Fields of a leaf; what is None is left out."""

    fields: tuple[tuple[str, str | bool | None], ...]


@dataclass(frozen=True, slots=True)
class Condition:
    """A stop condition. Never changes; two that say the same are equal.

    `a & b` holds if both do, `a | b` if one does, `~a` if `a` does not. Rows of the same operator become one
    list, as one would write them; `~~a` is `a`. `and`, `or` and `not` can't be used: they raise TypeError.
    """

    key: str
    value: "Condition | tuple[Condition, ...] | _AtLeast | _Fields | str | bool"

    def __and__(self, other: "Condition") -> "Condition":
        """Both."""
        return _joined("all", self, other)

    def __or__(self, other: "Condition") -> "Condition":
        """One of the two, or both."""
        return _joined("any", self, other)

    def __invert__(self) -> "Condition":
        """Not this one."""
        if self.key == "not" and isinstance(self.value, Condition):
            return self.value
        return Condition("not", self)

    def __bool__(self) -> NoReturn:
        """Refuse `and`, `or`, `not` and `if`, which would drop a part without a word."""
        raise TypeError("join conditions by &, | and ~; `and`, `or` and `not` can't do it")

    def to_dict(self) -> Plain:
        """The condition as it stands under `stop_when`, to be put into a workflow before it is written."""
        return {self.key: _plain(self.value)}

    def to_yaml(self) -> str:
        """The condition on one line, in the flow style of YAML, which is JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False)


def any_of(*conditions: Condition) -> Condition:
    """Holds if one of them does. Raises ValueError if there is none."""
    return _joined("any", *conditions)


def all_of(*conditions: Condition) -> Condition:
    """Holds if all of them do. Raises ValueError if there is none."""
    return _joined("all", *conditions)


def none_of(*conditions: Condition) -> Condition:
    """Holds if none of them does. Raises ValueError if there is none."""
    return ~_joined("any", *conditions)


def iterations(gte: int) -> Condition:
    """So many turns of the visit."""
    return Condition("iterations", _AtLeast(gte))


def tokens(gte: int) -> Condition:
    """So many tokens of the visit."""
    return Condition("tokens", _AtLeast(gte))


def cost_usd(gte: float | Decimal) -> Condition:
    """So many US dollars for the visit, with at most six decimals."""
    return Condition("cost_usd", _AtLeast(gte if isinstance(gte, int) else float(gte)))


def confidence(gte: float | Decimal) -> Condition:
    """At least so much confidence in the visit's progress, from 0 to 1 with at most three decimals."""
    return Condition("confidence", _AtLeast(gte if isinstance(gte, int) else float(gte)))


def elapsed(gte: str) -> Condition:
    """So much active time of the visit, such as `90s` or `2m`."""
    return Condition("elapsed", _AtLeast(gte))


def no_tool_calls() -> Condition:
    """The last reply asked for no tool, and the step went on all the same."""
    return Condition("no_tool_calls", value=True)


def tool_called(name: str, *, success: bool | None = None) -> Condition:
    """A call of this tool ended: well, not well, or (None) either way."""
    return Condition("tool_called", _Fields((("name", name), ("success", success))))


def text_mention(text: str, *, case: bool = False) -> Condition:
    """The last reply has this text. `case`: upper and lower case count."""
    return Condition("text_mention", _Fields((("text", text), ("case", case or None))))


def outcome_is(outcome: str) -> Condition:
    """The last reply is a sound answer with this outcome."""
    return Condition("outcome_is", outcome)


def expression(cel: str) -> Condition:
    """A CEL expression over the facts of the visit."""
    return Condition("expression", cel)


def function(name: str, *, timeout: str | None = None) -> Condition:
    """A Python function of the operator's roots, `package.module:name`, asked for at most so long."""
    return Condition("function", name if timeout is None else _Fields((("name", name), ("timeout", timeout))))


def _joined(key: str, *conditions: Condition) -> Condition:
    parts: list[Condition] = []
    for one in conditions:
        parts.extend(one.value if one.key == key and isinstance(one.value, tuple) else (one,))
    if not parts:
        raise ValueError("there has to be at least one condition")
    return parts[0] if len(parts) == 1 else Condition(key, tuple(parts))


def _plain(value: Condition | tuple[Condition, ...] | _AtLeast | _Fields | str | bool) -> object:  # noqa: FBT001 - the value of a leaf
    match value:
        case Condition():
            return value.to_dict()
        case tuple():
            return [_plain(part) for part in value]
        case _AtLeast():
            return {"gte": value.gte}
        case _Fields():
            return {name: part for name, part in value.fields if part is not None}
        case _:
            return value
