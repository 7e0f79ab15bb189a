"""Why a run ended, from its events: recorded runs as text, what does not fit together, events of any kind."""

import random
from collections.abc import Sequence

import pytest

from jackline.v1.control_pb2 import CommandKind
from jackline.v1.event_pb2 import (
    AnswerContent,
    CallContent,
    CallProblem,
    CommandApplied,
    Content,
    InterruptRaised,
    InterruptResolved,
    ModelCallPurpose,
    ModelCallStarted,
    ModelReplied,
    Paused,
    RunFinished,
    RunStarted,
    StepEvent,
    StepFinished,
    StepStarted,
    TimerFired,
    TimerKind,
    ToolCallFinished,
    ToolCallRequested,
    ToolCallStarted,
    ToolResultContent,
)
from jackline.v1.run_pb2 import Effect, RunState, StopReason, ToolCallStatus, Usage
from jackline_client.cli.wording import ending
from jackline_client.explaining import Cause, Explanation, explain
from jackline_client.explaining.causes import on_the_way
from jackline_client.explaining.history import read
from tests.client.explained import FOLDER, NAMES, explained, recorded, text_of

OK, FAILED = ToolCallStatus.TOOL_CALL_STATUS_COMPLETED, ToolCallStatus.TOOL_CALL_STATUS_FAILED
UNKNOWN, DENIED = ToolCallStatus.TOOL_CALL_STATUS_UNKNOWN, ToolCallStatus.TOOL_CALL_STATUS_DENIED
READ, WRITE = Effect.EFFECT_READ, Effect.EFFECT_WRITE


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_run_is_explained_as_it_was(name: str) -> None:
    """`python -m tests.client.explained` writes the files anew; read what changes."""
    assert explained(name) == (FOLDER / f"{name}.txt").read_text(encoding="utf-8")


def test_there_is_a_text_for_each_recorded_run_and_none_beside() -> None:
    assert sorted(path.stem for path in FOLDER.iterdir()) == NAMES


# --- a run made by hand ------------------------------------------------------------------------


def test_a_run_that_is_held_before_its_time_says_when_that_is() -> None:
    begun = StepEvent(run_id="run_1", sequence=1, run_started=RunStarted(workflow="held"))
    begun.run_started.start_time.FromJsonString("2999-03-01T18:30:00Z")
    paused = StepEvent(run_id="run_1", sequence=2, paused=Paused(principal="ann"))
    told = text_of(explain([begun, paused]))
    assert "held by ann; it begins at 2999-03-01 18:30:00 UTC at the earliest" in told


def test_a_reason_that_says_all_is_said_once() -> None:
    assert ending("aborted", StopReason.STOP_REASON_KILL_SWITCH, "kill_switch") == "aborted (kill_switch)"


class Log:
    """Events of one visit, one after the other."""

    def __init__(self) -> None:
        self.events: list[StepEvent] = []
        self.calls = 0

    def add(self, event: StepEvent) -> None:
        event.run_id = "run_1"
        event.sequence = len(self.events) + 1
        event.step_id = event.step_id or "work"
        event.visit = event.visit or 1
        self.events.append(event)

    def turn(self, *calls: tuple[str, str, Effect.ValueType, ToolCallStatus.ValueType, str]) -> None:
        """A turn with its calls: tool, arguments, effect, how it ended, output."""
        self.add(
            StepEvent(model_call_started=ModelCallStarted(purpose=ModelCallPurpose.MODEL_CALL_PURPOSE_TURN))
        )
        self.add(StepEvent(model_replied=ModelReplied(tool_calls=len(calls), usage=Usage(prompt_tokens=5))))
        for tool, arguments, effect, status, output in calls:
            self.calls += 1
            name = f"call-{self.calls}"
            content = CallContent(tool=tool, arguments=arguments.encode())
            requested = ToolCallRequested(call_id=name, ordinal=self.calls, tool=tool)
            self.add(StepEvent(tool_call_requested=requested, content=Content(call=content)))
            if status != DENIED:
                started = ToolCallStarted(call_id=name, tool=tool, effect=effect, attempt=1)
                self.add(StepEvent(tool_call_started=started))
            finished = ToolCallFinished(call_id=name, tool=tool, status=status)
            result = ToolResultContent(output_json=output.encode())
            self.add(StepEvent(tool_call_finished=finished, content=Content(tool_result=result)))

    def ends(
        self, reason: StopReason.ValueType = StopReason.STOP_REASON_DEFAULT, leaf: str = ""
    ) -> Explanation:
        """The run ends with its step."""
        word = StopReason.Name(reason).removeprefix("STOP_REASON_").lower()
        self.add(StepEvent(step_finished=StepFinished(signal=word, stop_reason=reason, stop_leaf=leaf)))
        state = RunState.RUN_STATE_SUCCEEDED
        ended = RunFinished(state=state, signal=word, stop_reason=reason, stop_leaf=leaf)
        self.add(StepEvent(run_finished=ended))
        return explain(self.events)


def begun() -> Log:
    log = Log()
    log.add(StepEvent(step_started=StepStarted(steps=1)))
    return log


def kinds(findings: Sequence[object]) -> list[str]:
    return [str(getattr(one, "kind", "")) for one in findings]


def test_two_writes_with_equal_arguments_are_pointed_out_however_their_json_is_written() -> None:
    log = begun()
    log.turn(("pay", '{"a":1,"b":2}', WRITE, OK, "1"))
    log.turn(("pay", ' {"b": 2, "a": 1} ', WRITE, OK, "2"))
    (found,) = log.ends().contradictions
    assert found.kind == "write_repeated"
    assert found.sequences == (4, 9)


@pytest.mark.parametrize(
    "second",
    [
        ("pay", '{"a":2}', WRITE, OK, "1"),
        ("refund", '{"a":1}', WRITE, OK, "1"),
        ("pay", '{"a":1}', READ, OK, "1"),
        ("pay", '{"a":1}', WRITE, FAILED, "1"),
        ("pay", '{"a":1}', WRITE, DENIED, "1"),
    ],
    ids=["other arguments", "another tool", "a read", "one failed", "one was refused"],
)
def test_what_is_no_second_write_is_not_pointed_out(
    second: tuple[str, str, Effect.ValueType, ToolCallStatus.ValueType, str],
) -> None:
    log = begun()
    log.turn(("pay", '{"a":1}', WRITE, OK, "1"))
    log.turn(second)
    assert "write_repeated" not in kinds(log.ends().contradictions)


def test_a_tool_that_succeeded_after_it_had_failed_with_the_same_arguments() -> None:
    log = begun()
    log.turn(("look", "{}", READ, FAILED, ""))
    log.turn(("look", "{}", READ, OK, "1"))
    assert kinds(log.ends().contradictions) == ["failed_then_succeeded"]


def test_an_answer_after_all_tools_failed_stands_on_nothing() -> None:
    log = begun()
    log.turn(("look", "{}", READ, FAILED, ""), ("list", "{}", READ, DENIED, ""))
    log.turn()
    assert kinds(log.ends().contradictions) == ["answer_without_result"]
    exhausted = begun()
    exhausted.turn(("look", "{}", READ, FAILED, ""))
    assert exhausted.ends(StopReason.STOP_REASON_MAX_ITERATIONS).contradictions == ()


@pytest.mark.parametrize(
    ("problem", "found"),
    [
        (CallProblem.CALL_PROBLEM_NOT_APPROVED, []),
        (CallProblem.CALL_PROBLEM_SUPERVISOR, []),
        (CallProblem.CALL_PROBLEM_POLICY_DENIED, []),
        (CallProblem.CALL_PROBLEM_GUARDRAIL, []),
        (CallProblem.CALL_PROBLEM_INVALID_ARGUMENTS, ["answer_without_result"]),
    ],
)
def test_an_answer_after_a_no_is_no_contradiction(problem: CallProblem.ValueType, found: list[str]) -> None:
    log = begun()
    log.turn(("wipe", "{}", WRITE, DENIED, ""))
    log.events[-1].tool_call_finished.problem = problem
    log.turn()
    assert kinds(log.ends().contradictions) == found


def test_a_call_with_other_arguments_that_a_person_gave_it_is_another_call() -> None:
    def asked_and_edited(log: Log, arguments: str) -> None:
        """A write that the model asks for with the same arguments each time, and a person changes."""
        log.turn(("wipe", '{"host":"web-1"}', WRITE, OK, "1"))
        name = f"call-{log.calls}"
        started, finished = log.events.pop(-2), log.events.pop()
        log.add(StepEvent(interrupt_raised=InterruptRaised(interrupt_id=f"of {name}", call_id=name)))
        resolved = InterruptResolved(
            interrupt_id=f"of {name}", option="edit_and_approve", arguments_digest="ab"
        )
        answer = AnswerContent(output_json=arguments.encode())
        log.add(StepEvent(interrupt_resolved=resolved, content=Content(answer=answer)))
        log.add(started)
        log.add(finished)

    differ, same = begun(), begun()
    for log, second in ((differ, '{"host":"web-3"}'), (same, '{"host":"web-2"}')):
        asked_and_edited(log, '{"host":"web-2"}')
        asked_and_edited(log, second)
    assert kinds(differ.ends().contradictions) == []
    assert kinds(same.ends().contradictions) == ["write_repeated"]


def test_a_decision_and_an_expiry_are_one_line_each_with_the_reason() -> None:
    log = begun()
    for kind, option in (
        (CommandKind.COMMAND_KIND_APPROVE, "approve"),
        (CommandKind.COMMAND_KIND_EDIT_AND_APPROVE, "edit_and_approve"),
        (CommandKind.COMMAND_KIND_REJECT, "reject"),
    ):
        log.add(StepEvent(command_applied=CommandApplied(kind=kind), content=Content(text="looked at")))
        log.add(StepEvent(interrupt_resolved=InterruptResolved(option=option, principal="ann")))
    log.add(StepEvent(timer_fired=TimerFired(kind=TimerKind.TIMER_KIND_INTERRUPT)))
    log.add(StepEvent(interrupt_resolved=InterruptResolved()))
    found = list(on_the_way(read(log.events)))
    assert [cause.sequence for cause in found] == [3, 5, 7, 9]
    assert ["looked at" in cause.text for cause in found] == [True, True, True, False]


def test_an_answer_over_a_call_of_unknown_outcome() -> None:
    log = begun()
    log.turn(("look", "{}", READ, OK, ""), ("pay", "{}", WRITE, UNKNOWN, ""))
    log.turn()
    assert kinds(log.ends().contradictions) == ["answer_over_unknown"]


@pytest.mark.parametrize("period", [1, 2, 3])
@pytest.mark.parametrize("times", [2, 3, 5])
def test_cycles_of_up_to_three_turns_are_found_from_the_third_time_on(period: int, times: int) -> None:
    log = begun()
    log.turn(("list", "{}", READ, OK, "[]"))
    for _ in range(times):
        for place in range(period):
            log.turn(("look", f'{{"n":{place}}}', READ, OK, "1"))
    log.turn(("list", "{}", READ, OK, "[]"))
    found = log.ends().cycles
    assert [len(one.sequences) for one in found] == ([] if times < 3 else [period * times])


def test_a_result_that_changes_is_no_cycle_but_without_content_nobody_can_tell() -> None:
    log = begun()
    for number in range(3):
        log.turn(("look", "{}", READ, OK, str(number)))
    log.ends()
    bare = [StepEvent.FromString(event.SerializeToString()) for event in log.events]
    for event in bare:
        event.ClearField("content")
    assert explain(log.events).cycles == ()
    (found,) = explain(bare).cycles
    assert "by their names" in found.text
    assert not explain(bare).with_content


# --- events of any kind ------------------------------------------------------------------------


def sequences(cause: Cause | None) -> list[int]:
    if cause is None:
        return []
    return [cause.sequence, *(one for inner in cause.causes for one in sequences(inner))]


@pytest.mark.parametrize("name", NAMES)
def test_a_run_that_was_read_up_to_anywhere_is_explained(name: str) -> None:
    events = recorded(name)
    for end in range(len(events) + 1):
        found = explain(events[:end])
        assert found.events == end
        assert found.ended is (end == len(events) and not name.startswith("open"))
        assert found.summary
        assert text_of(found)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("content", [True, False])
def test_a_run_with_holes_is_explained_and_the_holes_are_named(name: str, content: bool) -> None:
    events = recorded(name, content=content)
    chance = random.Random(name)  # noqa: S311 - the same holes each time
    for gone in range(len(events) - 1):
        found = explain(events[:gone] + events[gone + 1 :])
        assert found.missing == ((gone + 1, gone + 1),)
        assert text_of(found)
    for _ in range(30):
        text_of(explain(chance.sample(events, chance.randrange(len(events)))))


@pytest.mark.parametrize("name", NAMES)
def test_order_and_repetition_of_what_is_given_do_not_matter(name: str) -> None:
    events = recorded(name)
    assert explain([*reversed(events), *events]) == explain(events)


@pytest.mark.parametrize("name", NAMES)
def test_each_cause_stands_before_what_it_led_to(name: str) -> None:
    why = explain(recorded(name)).why
    assert why is not None
    assert len(set(sequences(why))) == len(sequences(why))
    waiting = [(why, why.sequence + 1)]
    while waiting:
        cause, before = waiting.pop()
        assert cause.sequence < before
        waiting += [(inner, cause.sequence or before) for inner in cause.causes]


def test_nothing_at_all_is_explained() -> None:
    found = explain([])
    assert (found.why, found.ended, found.shares) == (None, False, ())
    assert text_of(found)


def test_facts_and_values_of_a_newer_version_are_counted_and_numbered() -> None:
    log = begun()
    log.turn()
    log.add(StepEvent.FromString(b"\xfa\x03\x00"))
    step = StepFinished(signal="new", stop_leaf="x")
    step.MergeFromString(b"\x10\xe7\x07")
    log.add(StepEvent(step_finished=step))
    end = RunFinished(signal="new", stop_leaf="x")
    end.MergeFromString(b"\x08\x63\x18\xe7\x07")
    log.add(StepEvent(run_finished=end))
    found = explain(log.events)
    assert found.unknown_facts == 1
    assert "999" in found.summary
    assert text_of(found)


def test_what_a_stranger_wrote_can_t_move_the_cursor() -> None:
    log = begun()
    log.turn(("pay\x1b[2J", "{}", WRITE, OK, ""), ("pay\x1b[2J", "{}", WRITE, OK, ""))
    text = text_of(log.ends(leaf="\x1b]0;x\x07"))
    assert "\\x1b" in text
    assert not any(ord(character) < 0x20 and character != "\n" for character in text)


def test_a_long_chain_of_steps_that_went_wrong_is_followed_a_little() -> None:
    log = Log()
    for number in range(1, 3_000):
        reason = StopReason.STOP_REASON_TOOL_ERROR
        log.add(StepEvent(step_id="work", visit=number, step_started=StepStarted(steps=number)))
        finished = StepFinished(signal="error", stop_reason=reason, next_step="work")
        log.add(StepEvent(step_id="work", visit=number, step_finished=finished))
    log.add(
        StepEvent(run_finished=RunFinished(signal="error", stop_reason=StopReason.STOP_REASON_TOOL_ERROR))
    )
    assert 10 < len(sequences(explain(log.events).why)) < 60


def test_an_attempt_under_way_is_no_failed_one() -> None:
    def told(log: Log) -> str:
        return next(cause.text for cause in on_the_way(read(log.events)) if cause.kind == "tool_call")

    log = begun()
    call = ToolCallRequested(call_id="c", ordinal=1, tool="track")
    log.add(StepEvent(tool_call_requested=call))
    log.add(StepEvent(tool_call_started=ToolCallStarted(call_id="c", tool="track", effect=READ, attempt=1)))
    log.add(
        StepEvent(
            tool_call_finished=ToolCallFinished(call_id="c", tool="track", status=FAILED, retry_in_ms=9)
        )
    )
    assert told(log) == "the call of track has failed after 1 attempt and is to be made again"
    log.add(StepEvent(tool_call_started=ToolCallStarted(call_id="c", tool="track", effect=READ, attempt=2)))
    assert told(log) == "attempt 2 at the call of track is under way; the last one failed"
    log.add(StepEvent(tool_call_finished=ToolCallFinished(call_id="c", tool="track", status=OK)))
    assert told(log) == "the call of track is completed after 2 attempts"
