"""Words that several views of a run share: enum values, counts, endings, calls, commands for typing.

Owns how each is spelled. Does not own which of them an event or a run gets, nor safety (`printable`,
`Screen`).
"""

import json
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar, cast

from google.protobuf.timestamp_pb2 import Timestamp

from jackline.v1.event_pb2 import BoundsAdjusted, InterruptRaised, ToolProgress
from jackline.v1.run_pb2 import Interrupt, InterruptKind, Run, RunBounds, StopReason, VisitBounds
from jackline_client.cli.answer_forms import form_of
from jackline_client.cli.printable import printable
from jackline_client.cli.questions import meanings

SHORT = 60
LONG = 600
_ARGUMENTS = 160
_WHOLE = 1e15
_COMMAND_WORD = 200
_WORDS = 300
_NORMAL_SIGNALS = frozenset({"", "default"})
_MEANINGS = {
    "succeeded": "it took effect; to say what it returned as well: {submit}",
    "failed": "it did not take effect",
    "retry": "call it again",
}
_AT_A_LIMIT = {
    "raise": "raise {bound} and go on; `jackline adjust` sets it to what you say",
    "final_answer": "one more call without tools, then the step ends",
    "give_up": "end the step with what there is",
}
_OF_A_SUPERVISOR = {
    "go_on": "let it go on as if nobody had asked",
    "deny": "the call is not made, and the model is told so",
    "abort": "end the run, along its routes",
}
ACCEPT, DECLINE = "accept", "decline"
_Value = TypeVar("_Value", bound=int)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line and how it looks on a terminal."""

    text: str
    style: str = ""


def summary(run: Run) -> Line:
    """Says what a run has spent."""
    spent = [
        count(run.ledger.tokens, "token") + (" (partly estimated)" if run.usage.estimated else ""),
        f"${run.ledger.cost_micros / 1_000_000:.4f}",
        count(run.ledger.model_requests, "model call"),
        count(run.ledger.tool_calls, "tool call"),
        f"{run.active_time.ToMilliseconds() / 1000:.1f} s",
    ]
    return Line(text="  " + " · ".join(spent), style="dim")


def answer_commands(
    run_id: str, asked: Interrupt | InterruptRaised, flag: str, *, form: bytes = b"", question: str = ""
) -> Iterator[str]:
    """Yields one command to type for each option of an interrupt, and below it what it means or takes.

    `form` is the schema of the answer, and `question` its words, where the interrupt has them beside itself.
    """
    explained = meanings(asked.question if isinstance(asked, Interrupt) else question, asked.options)
    if asked.kind == InterruptKind.INTERRUPT_KIND_APPROVAL:
        yield from _decisions(run_id, asked.interrupt_id, flag)
        return
    for option in asked.options:
        yield _command("answer", run_id, asked.interrupt_id, option) + flag
        if option in explained:
            yield f"  means: {printable(explained[option], limit=_WORDS)}"
        for line in _consequences(run_id, asked, option, flag=flag, form=form):
            yield "  " + line


def _consequences(
    run_id: str, asked: Interrupt | InterruptRaised, option: str, *, flag: str, form: bytes
) -> Iterator[str]:
    """What an option of a question of this kind brings about, or takes."""
    match asked.kind:
        case InterruptKind.INTERRUPT_KIND_UNKNOWN_OUTCOME if option in _MEANINGS:
            submit = _command("submit", run_id, asked.call_id) + " --output JSON" + flag
            yield _MEANINGS[option].format(submit=submit)
        case InterruptKind.INTERRUPT_KIND_LIMIT_REACHED if option in _AT_A_LIMIT:
            yield _AT_A_LIMIT[option].format(bound=_raised(asked))
        case InterruptKind.INTERRUPT_KIND_SUPERVISION if option in _OF_A_SUPERVISOR:
            yield _OF_A_SUPERVISOR[option]
        case InterruptKind.INTERRUPT_KIND_QUESTION if list(asked.options) == [ACCEPT, DECLINE]:
            own = asked.schema_json if isinstance(asked, Interrupt) else form
            yield from form_of(own).lines if option == ACCEPT else ("whoever asks hears no",)
        case _:
            pass


def _decisions(run_id: str, interrupt_id: str, flag: str) -> Iterator[str]:
    """What can be said of a call that waits to be approved."""
    approve = _command("approve", run_id, interrupt_id)
    yield approve + flag
    yield f"{approve} --edit-json JSON{flag}"
    yield "  with other arguments: the JSON above, as it shall be"
    yield _command("reject", run_id, interrupt_id) + f" --reason TEXT{flag}"
    yield "  a model that asked for it is told the reason, and goes on; a step of the flow ends with `error`"


def _raised(asked: Interrupt | InterruptRaised) -> str:
    """The bound that a question is about and what it would become."""
    if not asked.raise_to:
        return "the bound"
    leaf, to = short(asked.limit_leaf), asked.raise_to
    return f"{leaf} to ${to / 1_000_000:g}" if leaf.endswith("cost_budget_usd") else f"{leaf} to {to:,}"


def _command(name: str, *words: str) -> str:
    return f"jackline {name} " + " ".join(shlex.quote(printable(word, limit=_COMMAND_WORD)) for word in words)


def ending(signal: str, stop_reason: StopReason.ValueType, leaf: str) -> str:
    """Returns an exit with what it says beyond the ordinary."""
    reason = enum_word(StopReason.Name, stop_reason, "STOP_REASON_") if stop_reason else ""
    shown = short(signal) or reason
    if stop_reason == StopReason.STOP_REASON_OPERATOR:
        return f"{shown} (by a command)"
    said = dict.fromkeys((reason, short(leaf)))
    details = [word for word in said if word not in _NORMAL_SIGNALS | {"outcome", shown}]
    return f"{shown} ({', '.join(details)})" if details else shown


def new_bounds(fact: BoundsAdjusted) -> str:
    """Returns caps as name=value, those of the visit after `visit.`."""
    return ", ".join((*_caps(fact.run, ""), *_caps(fact.visit, "visit."))) or "none"


def _caps(bounds: RunBounds | VisitBounds, scope: str) -> Iterator[str]:
    for field, value in bounds.ListFields():
        match field.name:
            case "cost_budget_micros":
                yield f"{scope}cost_budget_usd={value / 1_000_000:g}"
            case "run_timeout" | "timeout":
                yield f"{scope}{field.name}={value.ToMilliseconds() / 1000:g}s"
            case name:
                yield f"{scope}{name}={value}"


def enum_word(name: Callable[[_Value], str], value: _Value, prefix: str) -> str:
    """Returns an enum value's name in small letters; its number if this version does not know it."""
    try:
        return name(value).removeprefix(prefix).lower()
    except ValueError:
        return str(value)


def count(number: int, noun: str) -> str:
    """Returns a number with its noun, in the plural where it needs one."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def far(progress: ToolProgress) -> str:
    """How far a tool call is: `lookup: 3/10 reading page 3`."""
    words = [f"{short(progress.tool)}:"]
    if progress.HasField("done"):
        words.append(_share(progress.done, progress.total if progress.HasField("total") else None))
    words.append(short(progress.text))
    return " ".join(filter(None, words))


def _share(done: float, total: float | None) -> str:
    if total == 1 and 0 <= done <= 1:
        return f"{done:.0%}"
    return _amount(done) if total is None else f"{_amount(done)}/{_amount(total)}"


def _amount(number: float) -> str:
    return f"{number:.0f}" if number.is_integer() and abs(number) < _WHOLE else f"{number:.3g}"


def short(text: str) -> str:
    """Returns a name that may come from anywhere, safe and not long."""
    return printable(text, limit=SHORT)


def json_words(value: bytes, *, limit: int = LONG) -> str:
    """Shows JSON text on one line."""
    return printable(value.decode("utf-8", "replace"), limit=limit)


def arguments(value: bytes) -> str:
    """Shows a call's arguments as name=value; as they stand if they are no JSON object."""
    text = value.decode("utf-8", "replace")
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError):
        return printable(text, limit=_ARGUMENTS)
    if not isinstance(found, dict):
        return printable(text, limit=_ARGUMENTS)
    shown = (
        f"{name}={item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)}"
        for name, item in cast("dict[str, object]", found).items()
    )
    return printable(", ".join(shown), limit=_ARGUMENTS)


def stamp(moment: Timestamp) -> str:
    """Returns a moment to the second, in UTC; empty for one that is not set."""
    return f"{moment.ToDatetime():%Y-%m-%d %H:%M:%S}" if moment.ByteSize() else ""
