"""What is seen of a run in the words of `examples/options`, and how it is held against what was expected."""

import json
from typing import Any

from google.protobuf.json_format import MessageToDict

from jackline.v1.event_pb2 import StepEvent
from jackline.v1.run_pb2 import Run

_PARTS = ("facts", "notices", "failures", "problems")


def of_run(run: Run) -> dict[str, Any]:
    result = run.outcome.result_json.decode()
    return {
        "state": word(run, "state"),
        "signal": run.signal,
        "reason": word(run, "stop_reason"),
        "leaf": run.stop_leaf,
        "result": json.loads(result) if result else None,
        "partial": run.outcome.partial,
        "input": json.loads(run.input_json),
        "metadata": dict(run.metadata),
        "steps": [step.step_id for step in run.steps],
    }


def bounds_of(run: Run) -> dict[str, Any]:
    """The bounds that a run has, but those that every run has. Times to the nearest second."""
    bounds = MessageToDict(run.bounds, preserving_proto_field_name=True)
    rounded = {"run_timeout": f"{round(run.bounds.run_timeout.ToTimedelta().total_seconds())}s"}
    return {name: value for name, value in {**bounds, **rounded}.items() if name not in ("steps", "events")}


def of_events(events: list[StepEvent]) -> dict[str, Any]:
    def each(kind: str) -> list[Any]:
        return [getattr(one, kind) for one in events if one.WhichOneof("fact") == kind]

    return {
        "facts": [one.WhichOneof("fact") for one in events],
        "models": [one.model for one in each("model_call_started")],
        "purposes": [word(one, "purpose") for one in each("model_call_started")],
        "failures": [word(one, "failure") for one in each("model_call_failed")],
        "notices": [word(one, "code") for one in each("noticed")],
        "longest_wait_ms": max([one.retry_in_ms for one in each("tool_call_finished")], default=0),
        "timed_out": [one.tool for one in each("tool_call_finished") if one.timed_out],
        "reused": [one.tool for one in each("tool_call_finished") if one.reused_from],
        "cut": [one.tool for one in each("tool_call_finished") if one.cut_from_bytes],
        "compacted": len(each("compacted")),
        "turns_left_out": [one.turns for one in each("compacted")],
        "pruned": any(one.results for one in each("compacted")),
        "problems": [word(one, "problem") for one in each("answer_rejected")],
        "answers": [word(one, "answer") for one in each("consulted")],
        "fired": [f"{one.rule} {one.turn} {word(one, 'action')}" for one in each("rule_fired")],
        "judged": [
            f"{one.turn} {one.passed if one.HasField('passed') else 'nothing'} {word(one, 'action')}".rstrip()
            for one in each("judge_returned")
        ],
    }


def word(message: Any, name: str) -> str:
    """An enum value of a message, as the contract writes it after its prefix, in small letters."""
    value = MessageToDict(message, preserving_proto_field_name=True).get(name, "")
    prefix = "".join(
        f"_{c}" if c.isupper() else c.upper() for c in message.DESCRIPTOR.fields_by_name[name].enum_type.name
    )
    return str(value).removeprefix(f"{prefix.lstrip('_')}_").lower()


def differences(expected: dict[str, Any], seen: dict[str, Any]) -> list[str]:
    """What was seen otherwise than expected.

    `no_NAME` lists what NAME lacks, `NAME_has` and `NAME_have` a part of it, `most_NAME` a limit of it. Lists
    of facts, notices, failures and problems are parts of what is seen; everything else is the whole.
    """
    return [
        f"{name}: expected {wanted!r}, seen {seen.get(_plain(name))!r}"
        for name, wanted in expected.items()
        if _plain(name) not in seen or not _fits(name, wanted, seen[_plain(name)])
    ]


def _plain(name: str) -> str:
    return name.removeprefix("no_").removeprefix("most_").removesuffix("_has").removesuffix("_have")


def _fits(name: str, wanted: Any, seen: Any) -> bool:
    if name.startswith("no_"):
        return not set(wanted) & set(seen)
    if name.startswith("most_"):
        return seen <= wanted
    if name.endswith("_has"):
        return wanted in (seen if isinstance(seen, str) else json.dumps(seen, ensure_ascii=False))
    if name.endswith("_have"):
        return wanted in seen
    return set(wanted) <= set(seen) if name in _PARTS else bool(seen == wanted)
