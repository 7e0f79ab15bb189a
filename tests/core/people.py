"""People in random scripts: steps that ask them, what they say, and what has to come of it.

They choose, fill in and say; they approve calls, edit and refuse them; they decline, are wrong, answer twice,
or let the time pass.
"""

from collections.abc import Mapping
from dataclasses import replace

from hypothesis import strategies as st

from jackline_server.core.approval_plans import ApprovalPlan, OnExpiry
from jackline_server.core.commands import Action, Answer, Approve, EditAndApprove, Reject
from jackline_server.core.facts import CallStatus, InterruptKind, StepStarted, ToolAsk
from jackline_server.core.plan import (
    ASK_PERSON,
    END,
    HumanAction,
    HumanOption,
    ModelStep,
    OnQuestion,
    Plan,
    ToolStep,
)
from jackline_server.core.reading import approvals
from jackline_server.core.state import Interrupt
from jackline_server.core.steps import ToolAttempt
from jackline_server.testing import plans
from jackline_server.testing.driving import Driver, Ends
from jackline_server.testing.validators.approvals import a1
from jackline_server.testing.validators.history import Event, History, Run, ToolEntry
from jackline_server.testing.validators.questions import q1, q2
from jackline_server.testing.validators.recording import caps_of, fields_of, kind_of

PERMIT, SIGN, FILL = "permit", "sign", "fill"
PEOPLE = (PERMIT, SIGN, FILL, ASK_PERSON)
ASKING = (SIGN, FILL, ASK_PERSON)
"""The tools that ask; the flow asks by `permit`, before anything else."""

FORM = '{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}'
WORDS = '{"type":"string","minLength":1}'
OPTIONS = ("approve", "reject", "failed")
DEFAULTS = {PERMIT: '{"option":"approve"}', SIGN: '{"option":"reject"}', FILL: '{"name":"Nobody"}'}
SAID = ("", '{"name":"Ann"}', "because", '{"name":7}', "\ud800")
FAR = 10**9
"""Longer than any question is open, in milliseconds."""

ANSWERS = st.builds(
    Answer,
    interrupt_id=st.sampled_from(["question-1-1", "question-2-1", "question-1-2"]),
    option=st.sampled_from([*OPTIONS, "accept", "decline", "perhaps", ""]),
    text=st.sampled_from(SAID),
)

OF_NOTHING = approvals.digest_of("{}")
"""What a decision about a call without arguments carries."""

APPROVALS = st.builds(
    ApprovalPlan,
    when=st.sampled_from(["", "", "arguments.n == 1", "context.nothing > 1"]),
    expiry_ms=st.sampled_from([1_000, 10**8]),
    on_expiry=st.sampled_from(OnExpiry),
)
APPROVAL_IDS = st.sampled_from(["approval-1-1", "approval-2-1", "approval-1-2"])
DECISIONS: st.SearchStrategy[Action] = st.one_of(
    st.builds(Approve, interrupt_id=APPROVAL_IDS, digest=st.sampled_from([OF_NOTHING, ""])),
    st.builds(
        EditAndApprove,
        interrupt_id=APPROVAL_IDS,
        digest=st.just(OF_NOTHING),
        arguments_json=st.sampled_from(['{"n":1}', '{"n":"x"}', '{"_p":1}', "{"]),
    ),
    st.builds(Reject, interrupt_id=APPROVAL_IDS, text=st.sampled_from(["", "no"])),
)


@st.composite
def with_people(draw: st.DrawFn, plan: Plan) -> Plan:
    """The plan, whose flow begins with a question or not, and steps for the tools that ask.

    Its digest is the mood of those who are asked.
    """
    steps = {name: _step(name, asks_default=draw(st.booleans())) for name in PEOPLE}
    alone = draw(st.sampled_from([OnQuestion.WAIT, OnQuestion.WAIT, OnQuestion.REVIEW]))
    mood = f"{draw(st.integers(0, 29)):064}"
    asked = replace(plan, steps={**plan.steps, **steps}, on_question=alone, digest=mood)
    return replace(asked, flow=(PERMIT,)) if draw(st.booleans()) else asked


def guarded(plan: Plan) -> Plan:
    """The plan, or every third time one whose agent calls nothing that acts without somebody's word."""
    agent = plan.steps[plans.AGENT]
    if int(plan.digest) % 3 or not isinstance(agent, ModelStep):
        return plan
    word = plans.approval(expiry_ms=1_000)
    tools = tuple(tool if tool.ref in ASKING else replace(tool, approval=word) for tool in agent.tools)
    return replace(plan, steps={**plan.steps, plans.AGENT: replace(agent, tools=tools)})


def _step(name: str, *, asks_default: bool) -> ToolStep:
    options = OPTIONS if name in (PERMIT, SIGN) else ()
    action = HumanAction(
        question="May it?",
        options=tuple(HumanOption(value=value) for value in options),
        schema_json=FORM if name == FILL else None,
        default_json=DEFAULTS.get(name) if asks_default else None,
    )
    routes = {"approve": plans.AGENT, "*": END}
    return plans.tool(name, kind="human", action=action, routes=routes, unknown_expiry_ms=1_000)


def asks(attempt: ToolAttempt) -> Ends:
    """What an attempt at a step that asks comes to: its question, as the tools would put it."""
    action = attempt.step.action
    assert isinstance(action, HumanAction)
    options = tuple(one.value for one in action.options)
    form = "" if options else action.schema_json or WORDS
    return Ends(status=CallStatus.ASKING, ask=ToolAsk(text="May it?", schema_json=form, options=options))


def decide(driver: Driver, interrupt_id: str, interrupt: Interrupt) -> None:
    """Decide an open question, each time another way; every third time somebody else answers it too."""
    turn = driver.state.sequence + int(driver.state.plan.digest)
    if interrupt.kind is InterruptKind.APPROVAL:
        _decide_call(driver, interrupt, turn)
        return
    choices = (*interrupt.options, "", "perhaps")
    option, text = choices[turn % len(choices)], SAID[turn % len(SAID)]
    if option:
        driver.send(Answer(interrupt_id=interrupt_id, option=option, text=text))
    else:
        driver.pass_time(unix_ms=FAR)
    if turn % 3 == 0:
        driver.send(Answer(interrupt_id=interrupt_id, option=interrupt.options[-1], text="twice"))


def _decide_call(driver: Driver, interrupt: Interrupt, turn: int) -> None:
    """Decide about a call; every third time somebody else decides about it too."""
    name, digest = interrupt.interrupt_id, interrupt.digest
    edited = '{"n":1}' if turn % 2 else interrupt.arguments_json
    decisions: tuple[Action | None, ...] = (
        Approve(interrupt_id=name, digest=digest),
        EditAndApprove(interrupt_id=name, digest=digest, arguments_json=edited),
        None,
        Reject(interrupt_id=name, text="no"),
        Approve(interrupt_id=name, digest=approvals.digest_of("other bytes")),
        None,
    )
    decision = decisions[turn % len(decisions)]
    if decision is None:
        driver.pass_time(unix_ms=FAR)
    else:
        driver.send(decision)
    if turn % 3 == 0:
        driver.send(Approve(interrupt_id=name, digest=digest))


def history_of(driver: Driver) -> History:
    """What was seen of a driven run, in the form that validators judge."""
    events: list[Event] = []
    step = ""
    for sequence, fact in enumerate(driver.facts, start=1):
        step = fact.step_id if isinstance(fact, StepStarted) else step
        events.append(
            Event(sequence=sequence, kind=kind_of(fact), digest="", step=step, fields=fields_of(fact))
        )
    plan = driver.state.plan
    caps = caps_of(plan, plan.bounds)
    run = Run(run="run-1", mark="", caps=caps, events=tuple(events))
    return History(runs=(run,), tools=tuple(_noted(run.run, attempt) for attempt in driver.attempts))


def _noted(run: str, attempt: ToolAttempt) -> ToolEntry:
    """An attempt as the tool itself would note it."""
    return ToolEntry(
        run=run,
        tool=attempt.started.tool,
        effect=attempt.started.effect.value,
        call_key=attempt.started.call_key,
        attempt=attempt.started.attempt,
        at_ms=0,
        given=approvals.digest_of(approvals.shown(attempt.arguments, attempt.bound, attempt.step_input)),
    )


def check_questions(driver: Driver) -> None:
    """No answer twice or late, an expired question takes its default, and an option is the step's signal.

    No call that has to be approved starts otherwise than somebody let it.
    """
    history = history_of(driver)
    assert [*q1(history), *q2(history), *a1(history)] == []


def decided(driver: Driver) -> Mapping[str, set[str]]:
    """By the step that asked: what people decided, empty where the time was over."""
    (run,) = history_of(driver).runs
    tools: dict[str, str] = {}
    asked: dict[str, str] = {}
    found: dict[str, set[str]] = {}
    for event in run.events:
        match event.kind:
            case "tool_call_requested":
                tools[str(event.fields["call_id"])] = str(event.fields["tool"])
            case "interrupt_raised":
                asked[str(event.fields["interrupt_id"])] = tools.get(str(event.fields["call_id"]), "")
            case "interrupt_resolved":
                name = asked[str(event.fields["interrupt_id"])]
                found.setdefault(name, set()).add(str(event.fields["option"]))
            case _:
                pass
    return found
