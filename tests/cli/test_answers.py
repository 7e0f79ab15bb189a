"""`jackline answer`: the data of a form, what a question wants, and what is said of a bad answer."""

import json

import grpc
import pytest

from jackline.v1 import run_service_pb2 as wire
from jackline.v1.event_pb2 import Content, InterruptRaised, InterruptResolved, QuestionContent, StepEvent
from jackline.v1.run_pb2 import Interrupt, InterruptKind, Run
from tests.cli.console import Console
from tests.cli.test_lines import lines
from tests.support.scripted_service import RUN_ID, Failure, ScriptedService, receipt

FORM = {
    "type": "object",
    "properties": {
        "nights": {"type": "integer", "minimum": 1, "maximum": 9, "description": "How long?"},
        "room": {"enum": ["single", "double"], "default": "single"},
        "note": {"type": ["string", "null"]},
    },
    "required": ["nights"],
}
MANY_FIELDS: dict[str, object] = {f"f{number}": {} for number in range(40)}
SHOWN = (
    "nights* (integer, at least 1, at most 9): How long?",
    "room (one of: single, double, else single)",
    "note (string or null)",
)


def waiting(schema: object = FORM, count: int = 1) -> wire.GetRunResponse:
    interrupts = [
        Interrupt(
            interrupt_id=f"question-1-{number}",
            run_id=RUN_ID,
            kind=InterruptKind.INTERRUPT_KIND_QUESTION,
            options=["accept", "decline"],
            question="How long does Ann stay?",
            schema_json=json.dumps(schema).encode() if schema else b"",
        )
        for number in range(1, count + 1)
    ]
    return wire.GetRunResponse(run=Run(run_id=RUN_ID, interrupts=interrupts))


@pytest.mark.parametrize("words", [("question-1-1", "accept"), ("accept",), ()])
async def test_fields_become_the_data_of_the_answer(
    console: Console, service: ScriptedService, words: tuple[str, ...]
) -> None:
    if len(words) < 2:
        service.script("GetRun", waiting())
    service.script("Control", receipt())
    done = await console.run("answer", RUN_ID, *words, "-f", "nights:=2", "-f", "note=a=b")
    assert done.code == 0, done.err
    (request,) = service.requests(wire.ControlRequest)
    assert (request.answer.interrupt_id, request.answer.option) == ("question-1-1", "accept")
    assert json.loads(request.answer.text) == {"nights": 2, "note": "a=b"}


@pytest.mark.parametrize(
    ("field", "given", "value"),
    [
        ({"type": "integer"}, "=2", 2),
        ({"type": "number"}, "=2.5", 2.5),
        ({"type": "number"}, "=NaN", "NaN"),
        ({"type": "integer"}, ':="2"', "2"),
        ({"type": "boolean"}, "=true", True),
        ({"type": "boolean"}, "=1", "1"),
        ({"type": ["integer", "null"]}, "=2", 2),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "=2", 2),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "=2", "2"),
        ({"type": "string"}, "=2", "2"),
        ({"type": "array"}, "=2", "2"),
        ({}, "=2", "2"),
    ],
)
async def test_the_text_of_a_field_is_its_value_where_the_form_takes_no_text(
    console: Console, service: ScriptedService, field: object, given: str, value: object
) -> None:
    service.script("GetRun", waiting({"type": "object", "properties": {"field": field}}))
    service.script("Control", receipt())
    done = await console.run("answer", RUN_ID, "accept", "-f", f"field{given}")
    assert done.code == 0, done.err
    (request,) = service.requests(wire.ControlRequest)
    sent = json.loads(request.answer.text)["field"]
    assert (sent, type(sent)) == (value, type(value))


async def test_the_question_that_was_named_says_what_the_text_of_a_field_is(
    console: Console, service: ScriptedService
) -> None:
    service.script("GetRun", waiting(count=2))
    service.script("Control", receipt())
    assert (await console.run("answer", RUN_ID, "question-1-2", "accept", "-f", "nights=2")).code == 0
    (request,) = service.requests(wire.ControlRequest)
    assert request.answer.interrupt_id == "question-1-2"
    assert json.loads(request.answer.text) == {"nights": 2}


async def test_a_word_for_yes_is_met_with_what_to_type(console: Console, service: ScriptedService) -> None:
    problem = "/by_post: 'yes' is not of type 'boolean'"
    service.script(
        "Control",
        Failure(
            code=grpc.StatusCode.INVALID_ARGUMENT,
            reason="INVALID_ANSWER",
            violations=(("answer.text", problem),),
        ),
    )
    service.script("GetRun", waiting({"type": "object", "properties": {"by_post": {"type": "boolean"}}}))
    done = await console.run("answer", RUN_ID, "question-1-1", "accept", "-f", "by_post=yes")
    assert done.code == 65
    assert "-f by_post=true or -f by_post=false" in done.err


@pytest.mark.parametrize(
    "words",
    [
        ("accept", "-f", "nights"),
        ("accept", "-f", "nights:=two"),
        ("accept", "-f", "a=1", "-f", "a=2"),
        ("accept", "-f", "a=1", "--text", "{}"),
    ],
)
async def test_fields_that_are_none_are_refused_before_anything_is_sent(
    console: Console, service: ScriptedService, words: tuple[str, ...]
) -> None:
    assert (await console.run("answer", RUN_ID, *words)).code == 2
    assert service.requests(wire.ControlRequest) == []


@pytest.mark.parametrize("words", [("question-1-1", "accept"), ("accept",)])
async def test_a_form_without_data_says_its_fields_and_sends_nothing(
    console: Console, service: ScriptedService, words: tuple[str, ...]
) -> None:
    service.script("GetRun", waiting())
    done = await console.run("answer", RUN_ID, *words)
    assert (done.code, done.out) == (2, "")
    for shown in SHOWN:
        assert shown in done.err
    assert service.requests(wire.ControlRequest) == []


async def test_a_question_that_wants_nothing_is_accepted_without_words(
    console: Console, service: ScriptedService
) -> None:
    service.script("GetRun", waiting(None))
    service.script("Control", receipt())
    assert (await console.run("answer", RUN_ID, "accept")).code == 0


async def test_an_answer_that_does_not_fit_is_met_with_the_form_and_what_to_type(
    console: Console, service: ScriptedService
) -> None:
    problem = "/note: '2' is not of type 'array'"
    service.script(
        "Control",
        Failure(
            code=grpc.StatusCode.INVALID_ARGUMENT,
            reason="INVALID_ANSWER",
            violations=(("answer.text", problem),),
        ),
    )
    service.script("GetRun", waiting(), waiting())
    done = await console.run("answer", RUN_ID, "question-1-1", "accept", "-f", "note=2")
    assert (done.code, done.out) == (65, "")
    for shown in (*SHOWN, problem, "-f note:=2"):
        assert shown in done.err


@pytest.mark.parametrize("reason", ["ALREADY_DECIDED", "INTERRUPT_EXPIRED"])
async def test_an_answer_that_comes_late_names_the_question_that_is_open_now(
    console: Console, service: ScriptedService, reason: str
) -> None:
    service.script("Control", Failure(code=grpc.StatusCode.FAILED_PRECONDITION, reason=reason))
    service.script("GetRun", waiting(count=2), waiting(count=2))
    done = await console.run("answer", RUN_ID, "question-1-0", "decline")
    assert (done.code, done.out) == (65, "")
    for number in (1, 2):
        assert f"jackline answer {RUN_ID} question-1-{number} accept\n" in done.err


def ended(interrupt_id: str, option: str, number: int) -> StepEvent:
    event = StepEvent(
        run_id=RUN_ID,
        sequence=number,
        interrupt_resolved=InterruptResolved(
            interrupt_id=interrupt_id, option=option, principal="ann" if option else ""
        ),
    )
    event.time.FromJsonString(f"2026-01-02T03:04:0{number}Z")
    return event


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("question-1-1", "decline"), "question-1-1 was answered 2026-01-02 03:04:01 UTC: accept by ann"),
        (("question-1-2", "decline"), "question-1-2 expired 2026-01-02 03:04:02 UTC"),
        (("decline",), "question-1-2 expired 2026-01-02 03:04:02 UTC"),
    ],
)
async def test_an_answer_that_comes_late_is_told_how_and_when_the_question_ended(
    console: Console, service: ScriptedService, words: tuple[str, ...], said: str
) -> None:
    service.log = [ended("question-1-1", "accept", 1), ended("question-1-2", "", 2)]
    over = wire.GetRunResponse(run=Run(run_id=RUN_ID, head_sequence=2))
    if len(words) > 1:
        service.script("Control", Failure(code=grpc.StatusCode.FAILED_PRECONDITION, reason="ALREADY_DECIDED"))
    service.script("GetRun", over, over)
    done = await console.run("answer", RUN_ID, *words)
    assert done.code == 65
    assert said in done.err


async def test_the_inbox_says_the_fields_of_a_question(console: Console, service: ScriptedService) -> None:
    service.script("ListInterrupts", wire.ListInterruptsResponse(interrupts=waiting().run.interrupts))
    done = await console.run("inbox")
    for shown in SHOWN:
        assert shown in done.out


CHOICE = "Shall A-7 be refunded?\nIt was bought\nno: this is no option\nnow: at once\nlater: tomorrow"
CHOICE_SHOWN = (
    "? Shall A-7 be refunded?",
    "| It was bought",
    "| no: this is no option",
    f"jackline answer {RUN_ID} confirm-1 now",
    "means: at once",
    f"jackline answer {RUN_ID} confirm-1 later",
    "means: tomorrow",
)


def in_order(told: str) -> list[str]:
    return [line.strip() for line in told.splitlines() if line.strip() in CHOICE_SHOWN]


@pytest.mark.parametrize("command", [("inbox",), ("get", RUN_ID)])
async def test_what_an_option_means_stands_below_the_command_that_gives_it(
    console: Console, service: ScriptedService, command: tuple[str, ...]
) -> None:
    asked = Interrupt(
        interrupt_id="confirm-1",
        run_id=RUN_ID,
        kind=InterruptKind.INTERRUPT_KIND_QUESTION,
        options=["now", "later"],
        question=CHOICE,
    )
    if command == ("inbox",):
        service.script("ListInterrupts", wire.ListInterruptsResponse(interrupts=[asked]))
    else:
        service.script("GetRun", wire.GetRunResponse(run=Run(run_id=RUN_ID, interrupts=[asked])))
    done = await console.run(*command)
    assert in_order(done.out) == list(CHOICE_SHOWN)
    assert "\\n" not in done.out


def test_a_watcher_sees_what_an_option_means_below_its_command() -> None:
    raised = InterruptRaised(
        interrupt_id="confirm-1",
        kind=InterruptKind.INTERRUPT_KIND_QUESTION,
        options=["now", "later"],
    )
    event = StepEvent(run_id=RUN_ID, interrupt_raised=raised, content=Content(text=CHOICE))
    assert in_order("\n".join(lines([event]))) == list(CHOICE_SHOWN)


@pytest.mark.parametrize(
    ("schema", "shown"),
    [
        (FORM, SHOWN),
        ({"type": "string", "enum": ["red", "blue"]}, ("`--text` has one of: red, blue",)),
        ({"type": "string", "maxLength": 9}, ("in words: 9 characters at most",)),
        ({"type": "object", "properties": MANY_FIELDS},
         ("f0 (any value)", "and 10 more")),
        ({"type": "object", "properties": {"a\u001b[31m": {"anyOf": [{"const": 1}, {"type": "null"}]}}},
         ("always 1 or null",)),
        ({"type": "object", "properties": {"tags": {"type": "array", "items": {"type": "string"}}}},
         ("tags (array of string)",)),
        ({"type": "object", "properties": [1], "required": 5}, ("as a JSON object",)),
        ([1], ("go on",)),
    ],
)  # fmt: skip
def test_a_watcher_is_told_what_a_question_wants_whatever_its_form(
    schema: object, shown: tuple[str, ...]
) -> None:
    raised = InterruptRaised(
        interrupt_id="question-1-1",
        kind=InterruptKind.INTERRUPT_KIND_QUESTION,
        options=["accept", "decline"],
    )
    question = QuestionContent(text="How long?", schema_json=json.dumps(schema).encode())
    event = StepEvent(run_id=RUN_ID, interrupt_raised=raised, content=Content(question=question))
    told = "\n".join(lines([event]))
    assert "\x1b" not in told
    for words in shown:
        assert words in told
