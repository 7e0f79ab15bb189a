"""A run as a scripted model's script and the draft of a case: what happened once becomes a case.

Owns both texts and what is said of what can't be had. Pure. Does not own reading the run (`door`), nor where
the files go.

The script plays the models and nothing else: tools are called anew. The draft is unreviewed: it holds what
was seen, right or wrong.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from jackline_client.cli.yaml_text import yaml_text
from jackline_server.commands.evaluation.sight import Sight
from jackline_server.core.frozen import frozen
from jackline_server.models.script import parse_script

_MASK = re.compile(r"\[(?:email|phone|card|iban|ip|national_id)\]")
_PLACEHOLDER = re.compile(r"\{\{\s*user\.")
_LONGEST_MARK = 200
_USUAL_FINISH = {False: "stop", True: "tool_calls"}
_NEEDED_USAGE = frozenset({"prompt_tokens", "completion_tokens"})
_FINISHES = frozenset({"stop", "length", "tool_calls", "content_filter", "other"})


@frozen
class AskedCall:
    """A call as a model wrote it."""

    tool: str
    arguments: str


@frozen
class Reply:
    """One reply of a conversation, by its number. `usage` is None where the provider reported none."""

    conversation: int
    model: str
    text: str
    reasoning: str
    calls: tuple[AskedCall, ...]
    finish: str
    usage: Mapping[str, int] | None


@frozen
class Answered:
    """What a person answered."""

    step: str
    option: str
    text: str
    output: str = ""
    """The data put in place, such as other arguments of a call that was approved; empty without."""


@frozen
class Conversation:
    """What tells a visit of a step, in a run or one below it, from others: what its model was shown first."""

    name: str
    system: str
    opening: str


@frozen
class Recorded:
    """All of a run that a recording needs, and of those that it has started.

    `side_calls` are the calls of models that belong to no conversation: of judges, and for summaries.
    """

    seen: Sight
    is_stored: bool
    replies: tuple[Reply, ...]
    answers: tuple[Answered, ...]
    conversations: tuple[Conversation, ...]
    side_calls: int
    parent: str
    has_thread: bool


@frozen
class Recording:
    """The two texts, and what can't be had, a line each."""

    script: str
    cases: str
    notes: tuple[str, ...]


def recording(run: Recorded, *, name: str) -> Recording:
    """The script and the draft of the case `name`."""
    turns, shadowed = _turns(run)
    script = yaml_text({"turns": turns}) if turns else ""
    if script:
        parse_script(script, file="the script")
    notes = tuple(_notes(run, script, shadowed=shadowed))
    head = [f"# Recorded from {run.seen.run_id}. Not reviewed: look it over, then say `reviewed_by`."]
    head += [f"# {note}" for note in notes]
    case = yaml_text({"cases": [_case(run, name)]})
    return Recording(script=script, cases="\n".join(head) + "\n" + case, notes=notes)


# --- the script --------------------------------------------------------------------------------


def _turns(run: Recorded) -> tuple[list[dict[str, object]], int]:
    """The turns of a script, and how many replies no turn could be told apart for."""
    marks = [_mark(one, run.conversations) for one in run.conversations]
    counts: Counter[int] = Counter()
    made: dict[str, dict[str, object]] = {}
    shadowed = 0
    for reply in run.replies:
        counts[reply.conversation] += 1
        when = {"turn": counts[reply.conversation], **marks[reply.conversation]}
        key = json.dumps(when, sort_keys=True)
        if key in made:
            shadowed += 1
        else:
            made[key] = {"when": when, **_turn(reply)}
    return list(made.values()), shadowed


def _mark(one: Conversation, others: Sequence[Conversation]) -> dict[str, str]:
    """What of a conversation's beginning tells it from the others; nothing where it is the only one."""
    mark: dict[str, str] = {}
    foreign = [other.system.casefold() for other in others if other.system != one.system]
    if foreign:
        lines = [line.strip()[:_LONGEST_MARK] for line in one.system.splitlines() if line.strip()]
        own = next((line for line in lines if not any(line.casefold() in text for text in foreign)), "")
        if own:
            mark["system_contains"] = own
    alike = [other for other in others if other.system == one.system]
    if len({other.opening for other in alike}) > 1:
        mark["user_contains"] = one.opening
    return mark


def _turn(reply: Reply) -> dict[str, object]:
    turn: dict[str, object] = {}
    if reply.reasoning:
        turn["reasoning"] = reply.reasoning
    if reply.text or not reply.calls:
        turn["text"] = reply.text
    if reply.calls:
        turn["tool_calls"] = [
            {"name": call.tool, "arguments": _arguments(call.arguments)} for call in reply.calls
        ]
    turn["usage"] = "none" if reply.usage is None else _usage(reply.usage)
    if reply.finish in _FINISHES and reply.finish != _USUAL_FINISH[bool(reply.calls)]:
        turn["finish"] = reply.finish
    return turn


def _usage(usage: Mapping[str, int]) -> dict[str, int]:
    """What was reported, without what a script may leave out."""
    return {name: value for name, value in usage.items() if value or name in _NEEDED_USAGE}


def _arguments(text: str) -> object:
    """Arguments as a mapping where they are one; else as the text that was written."""
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return cast("object", found) if isinstance(found, dict) else text


# --- the case ----------------------------------------------------------------------------------


def _case(run: Recorded, name: str) -> dict[str, object]:
    seen = run.seen
    case: dict[str, object] = {"name": name}
    if run.is_stored:
        case["workflow"] = seen.workflow
    else:
        case["file"] = f"{seen.workflow}.yaml"
    if seen.input is not None:
        case["input"] = seen.input
    if run.answers:
        case["answers"] = [_answer(one) for one in run.answers]
    expect: dict[str, object] = {"state": seen.state, "exit": seen.exit}
    if seen.result is not None:
        expect["outcome"] = seen.result
    called: dict[str, int] = {}
    for call in seen.calls:
        called[call.tool] = called.get(call.tool, 0) + 1
    if called:
        expect["tools"] = {"called": [{"name": tool, "times": number} for tool, number in called.items()]}
    expect["used"] = {"iterations": seen.used.iterations, "tool_calls": seen.used.tool_calls}
    case["expect"] = expect
    return case


def _answer(answered: Answered) -> dict[str, object]:
    answer: dict[str, object] = {"step": answered.step, "option": answered.option}
    if answered.output:
        answer["value"] = _arguments(answered.output)
    elif answered.text:
        value = _arguments(answered.text)
        answer["text" if isinstance(value, str) else "value"] = value
    return answer


# --- what can't be had -------------------------------------------------------------------------


def _notes(run: Recorded, script: str, *, shadowed: int) -> Iterator[str]:
    models = sorted({reply.model for reply in run.replies})
    yield (
        f"The script plays {', '.join(models)}; tools are called anew."
        if models
        else "No model replied in this run, so that there is no script."
    )
    yield from _notes_of_turns(run, shadowed=shadowed)
    marked = _MASK.search(script) or _MASK.search(json.dumps(run.seen.input))
    name = run.seen.workflow
    for holds, note in (
        (not run.is_stored, f"The server has no workflow {name}: put its file beside this one."),
        (run.parent, f"Run {run.parent} has started it: as a case it starts by itself."),
        (run.has_thread, "The thread that it continued is not in it."),
        (marked, "What masks have replaced, such as [email], stays replaced."),
        (
            _PLACEHOLDER.search(script),
            "A reply has `{{ user.` in it, which a script takes for a placeholder.",
        ),
    ):
        if holds:
            yield note


def _notes_of_turns(run: Recorded, *, shadowed: int) -> Iterator[str]:
    """What the script's turns lack."""
    if shadowed:
        yield f"{_replies(shadowed)} left out: a script can't tell conversations apart that begin alike."
    systems = {one.system for one in run.conversations}
    unmarked = [
        one.name
        for one in run.conversations
        if len(systems) > 1 and "system_contains" not in _mark(one, run.conversations)
    ]
    if unmarked:
        names = ", ".join(dict.fromkeys(unmarked))
        yield f"Nothing in the system message tells apart: {names}. Add to the `when` of their turns."
    if run.side_calls:
        yield f"{_replies(run.side_calls)} left out, of judges or summaries: add turns for them."


def _replies(number: int) -> str:
    return "1 reply is" if number == 1 else f"{number} replies are"


def file_names(name: str) -> Sequence[str]:
    """The names of the two files: of the script and of the cases."""
    return f"script-{name}.yaml", f"cases-{name}.yaml"
