"""What a case expects of a run against what was seen of it: a line for each thing that is otherwise.

Owns what every expectation means. Pure: the expressions' evaluator is handed in. Does not own the judge's
word (`judging`).
"""

import json
from collections.abc import Iterator, Sequence

from jackline_server.commands.evaluation.shapes import CalledShape, ExpectShape, ToolsShape, UsedShape
from jackline_server.commands.evaluation.sight import Call, Sight
from jackline_server.core.frozen import frozen
from jackline_server.core.instruments import ExpressionError, ExpressionEvaluator
from jackline_server.core.plan import JsonValue
from jackline_server.definitions.parameters import as_json

_LONGEST = 200
_SUCCEEDED = "succeeded"


@frozen
class Miss:
    """One thing that is not as it was expected: what, and both sides in words."""

    what: str
    expected: str
    actual: str

    @property
    def line(self) -> str:
        """It in one line."""
        return f"{self.what}: expected {self.expected}, got {self.actual}"


def wanted_state(expect: ExpectShape) -> str | None:
    """The state that a run has to end in: `succeeded` where neither state nor exit is said."""
    if expect.state is None and expect.exit is None:
        return _SUCCEEDED
    return expect.state


def needs_content(expect: ExpectShape) -> bool:
    """True if it looks at what was said, given or returned, which a token may have no scope for."""
    return (
        expect.outcome is not None
        or expect.that is not None
        or bool(expect.text_mentions)
        or expect.judge is not None
        or any(called.with_ is not None for called in expect.tools.called)
    )


def misses(expect: ExpectShape, seen: Sight, *, expressions: ExpressionEvaluator) -> list[Miss]:
    """Everything that is otherwise than expected, in the order of the file's reference page."""
    return [
        *_ending(expect, seen),
        *_outcome(expect, seen, expressions),
        *_tools(expect.tools, seen.calls),
        *_used(expect.used, seen),
    ]


def _ending(expect: ExpectShape, seen: Sight) -> Iterator[Miss]:
    state = wanted_state(expect)
    if state is not None and state != seen.state:
        why = f"{seen.state} ({seen.exit}, {seen.stop_reason})"
        yield Miss(what="state", expected=state, actual=f"{why}: {seen.error}" if seen.error else why)
    if expect.exit is not None and expect.exit != seen.exit:
        yield Miss(what="exit", expected=expect.exit, actual=seen.exit)
    for step, signal in expect.steps.items():
        actual = seen.steps.get(step)
        if actual != signal:
            yield Miss(what=f"steps.{step}", expected=signal, actual=actual or "no visit")


def _outcome(expect: ExpectShape, seen: Sight, expressions: ExpressionEvaluator) -> Iterator[Miss]:
    if expect.outcome is not None:
        yield from _differences("outcome", as_json(expect.outcome), seen.result)
    if expect.that is not None:
        try:
            if not expressions.is_true(expect.that, seen.variables()):
                yield Miss(what="that", expected=shown(expect.that), actual="false")
        except ExpressionError as error:
            yield Miss(what="that", expected=shown(expect.that), actual=f"no answer: {error}")
    text = _text_of(seen.result).casefold()
    for mention in expect.text_mentions:
        if mention.casefold() not in text:
            yield Miss(what="text_mentions", expected=shown(mention), actual=shown(seen.result))


def _differences(path: str, wanted: JsonValue, found: JsonValue) -> Iterator[Miss]:
    """Where a value is not what is wanted: of an object only the keys that are wanted count."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        for key, value in wanted.items():
            if key not in found:
                yield Miss(what=f"{path}.{key}", expected=shown(value), actual="no such key")
            else:
                yield from _differences(f"{path}.{key}", value, found[key])
    elif isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        for index, (one, other) in enumerate(zip(wanted, found, strict=True)):
            yield from _differences(f"{path}[{index}]", one, other)
    elif not _same(wanted, found):
        yield Miss(what=path, expected=shown(wanted), actual=shown(found))


def holds(wanted: JsonValue, found: JsonValue) -> bool:
    """True if a value has all that is wanted of it."""
    return next(_differences("", wanted, found), None) is None


def _same(wanted: JsonValue, found: JsonValue) -> bool:
    """Equal as JSON has it: 1 is 1.0, and true is not 1."""
    if isinstance(wanted, bool) or isinstance(found, bool):
        return wanted is found
    return wanted == found


def _text_of(value: JsonValue) -> str:
    """All texts of a value."""
    match value:
        case str():
            return value
        case list():
            return "\n".join(_text_of(item) for item in value)
        case dict():
            return "\n".join(_text_of(item) for item in value.values())
        case _:
            return "" if value is None else json.dumps(value)


def _tools(expect: ToolsShape, calls: Sequence[Call]) -> Iterator[Miss]:
    for called in expect.called:
        yield from _called(called, calls)
    for name in expect.not_called:
        number = sum(call.tool == name for call in calls)
        if number:
            yield Miss(what=f"tools.not_called {name}", expected="no call", actual=_calls(number))
    if expect.order and not _in_order(expect.order, calls):
        order = " ".join(call.tool for call in calls)
        yield Miss(what="tools.order", expected=" ".join(expect.order), actual=shown(order or "no calls"))


def _called(called: CalledShape, calls: Sequence[Call]) -> Iterator[Miss]:
    named = [call for call in calls if call.tool == called.name]
    fitting = named
    if called.with_ is not None:
        wanted = as_json(called.with_)
        fitting = [call for call in named if holds(wanted, call.arguments)]
    number = len(fitting)
    least, most = _range(called)
    if least <= number and (most is None or number <= most):
        return
    given = "" if called.with_ is None else f" with {shown(as_json(called.with_))}"
    actual = _calls(number)
    if called.with_ is not None and named and not fitting:
        actual = f"none of {_calls(len(named))}, the last with {shown(named[-1].arguments)}"
    yield Miss(what=f"tools.called {called.name}", expected=_times(least, most) + given, actual=actual)


def _range(called: CalledShape) -> tuple[int, int | None]:
    """The least and the most calls; at least one where nothing is said."""
    if called.times is not None:
        return called.times, called.times
    if called.at_least is None and called.at_most is not None:
        return 0, called.at_most
    return 1 if called.at_least is None else called.at_least, called.at_most


def _times(least: int, most: int | None) -> str:
    if most == least:
        return _calls(least)
    if most is None:
        return f"at least {_calls(least)}"
    return f"at most {_calls(most)}" if not least else f"{least} to {_calls(most)}"


def _in_order(order: Sequence[str], calls: Sequence[Call]) -> bool:
    """True if the tools were called in this order, others between them or not."""
    names = iter(call.tool for call in calls)
    return all(any(name == wanted for name in names) for wanted in order)


def _used(most: UsedShape, seen: Sight) -> Iterator[Miss]:
    used = seen.used
    rows = (
        ("tokens", most.tokens, used.tokens, f"{used.tokens:,}"),
        ("cost_usd", most.cost_usd, used.cost_micros, dollars(used.cost_micros)),
        ("iterations", most.iterations, used.iterations, f"{used.iterations:,}"),
        ("tool_calls", most.tool_calls, used.tool_calls, f"{used.tool_calls:,}"),
        (
            "seconds",
            None if most.seconds is None else most.seconds * 1_000,
            used.active_ms,
            f"{used.active_ms / 1_000:.1f}",
        ),
    )
    for name, limit, actual, words in rows:
        if limit is not None and actual > limit:
            limits = {"cost_usd": dollars(limit), "seconds": f"{limit / 1_000:g}"}
            yield Miss(
                what=f"used.{name}", expected=f"at most {limits.get(name, f'{limit:,}')}", actual=words
            )


def dollars(micros: int) -> str:
    """An amount of money in words."""
    return f"${micros / 1_000_000:.6f}".rstrip("0").rstrip(".") if micros else "$0"


def shown(value: JsonValue) -> str:
    """A value in one short line."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _calls(number: int) -> str:
    return "1 call" if number == 1 else f"{number:,} calls"
