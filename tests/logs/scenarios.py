"""The runs that golden logs are recorded of: between them every fact that a run of today can write.

Owns the scenarios. Their model is the profile `fast`, their tools are `look` (a read) and `charge` (a write)
of the connection `shop`, so that a real server with those can go on with the ones that are cut off.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from jackline_server.core.commands import (
    Abort,
    AdjustBounds,
    Answer,
    Approve,
    Decision,
    EditAndApprove,
    Pause,
    Reject,
    Resume,
    Steer,
    SubmitToolResult,
)
from jackline_server.core.facts import AbortMode, FailureClass, Phase, ToolAsk, Usage
from jackline_server.core.new_bounds import NewRunBounds, NewVisitBounds
from jackline_server.core.plan import HumanAction
from jackline_server.runtime.ports.consultants import ConsultReply
from jackline_server.runtime.ports.models import ModelFailure
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from jackline_server.runtime.ports.tools import Invocation, ToolEnding, ToolResult
from jackline_server.runtime.use_cases import OnBusy, ThreadRequest
from jackline_server.testing.doubles import ScriptedReply, returns
from jackline_server.tools import human
from tests.logs.stage import START_UNIX_MS, Scenario, Stage

_INPUT = "input: {schema: {type: object, properties: {mark: {type: string}}, required: [mark]}}"
_TOOLS = """\
  look:
    kind: http
    effect: read
    description: Looks.
    connection: shop
    path: /look
    parameters: {type: object, properties: {at: {type: integer}}}
  charge:
    {kind: http, effect: write, description: Charges once., connection: shop, method: POST, path: /charge,
     body: {amount: 5}, ON_UNKNOWN}
"""


def _agent(
    *, top: str = "", step: str = "answer: text", unknown: str = "on_unknown: ask", more: str = ""
) -> str:
    """An agent with a read and a write. `top`, `step` and `more` are lines of the file, step and steps."""
    lines = [
        "name: pair",
        "model: fast",
        _INPUT,
        top or "bounds: {run_timeout: 2m, token_budget: 40000}",
        "flow: [work]",
        "steps:",
        "  work:",
        "    kind: agent",
        "    description: Looks and charges.",
        "    tools: [{ref: look}, {ref: charge}]",
        *(f"    {line}" for line in step.splitlines()),
    ]
    return "\n".join(lines) + "\n" + _TOOLS.replace("ON_UNKNOWN", unknown) + more


_FLOW = f"""\
name: flow
model: fast
{_INPUT}
flow: [judge, sort, book, reply]
steps:
  judge:
    kind: completion
    prompt: Judge the mark.
    outcome:
      enum: [good, bad]
      schema: {{type: object, properties: {{points: {{type: integer}}}}, required: [points]}}
      output_key: verdict
    routes: {{good: sort, "*": end}}
  sort:
    kind: router
    conditions: [{{when: "verdict.points > 3", signal: high}}]
    routes: {{high: book, default: reply}}
  book: {{kind: http, effect: idempotent, description: Books., connection: shop, method: POST, path: /look,
          body: {{points: 5}}, output_key: booking}}
  reply: {{kind: completion, prompt: Reply., answer: text}}
"""
_QUESTIONS = f"""\
name: questions
model: fast
{_INPUT}
flow: [confirm, work]
steps:
  confirm:
    kind: human
    question: Charge for {{{{ mark }}}}?
    input: {{mark: /input/mark}}
    options: [now, {{value: later, description: Not today.}}]
    expiry: 8h
    default: now
    routes: {{now: work, later: work}}
  work: {{kind: agent, description: Asks., tools: [{{builtin: ask_person}}, {{ref: card}}], answer: text}}
  card:
    kind: human
    description: Asks for the card.
    question: Which card?
    schema: {{type: object, properties: {{card: {{type: string}}}}, required: [card]}}
"""
_APPROVALS = f"""\
name: approvals
model: fast
{_INPUT}
bounds: {{approval_expiry: 8h}}
flow: [work]
steps:
  work:
    kind: agent
    description: Charges.
    tools: [{{ref: charge, bind: {{mark: /input/mark}}}}]
    answer: text
  charge:
    {{kind: http, effect: destructive, description: Charges., connection: shop, method: POST, path: /charge,
     body: {{mark: "{{{{ mark }}}}", sum: "{{{{ sum }}}}"}},
     parameters: {{type: object, properties: {{sum: {{type: integer}}}}}}}}
"""
_UNDO = """\
  undo:
    {kind: http, effect: idempotent, description: Undoes., connection: shop, method: POST, path: /look,
     routes: {default: end}}
"""
_FAMILY = f"""\
name: family
model: fast
{_INPUT}
bounds: {{run_timeout: 2m, token_budget: 40000}}
flow: [work]
steps:
  work: {{kind: agent, description: Has it looked up., tools: [{{ref: scout}}], answer: text}}
  scout:
    {{kind: agent, description: Looks., tools: [{{ref: look}}], answer: text, share: {{run_timeout: 30s}}}}
""" + _TOOLS.replace("ON_UNKNOWN", "on_unknown: ask")
_FAMILY_REPLIES = (
    ScriptedReply(calls=(("c-1", "scout", '{"payload":{"at":1}}'),)),
    ScriptedReply(calls=(("c-2", "look", "{}"),)),
    ScriptedReply(text="Found it."),
    ScriptedReply(text="It was found."),
)
_ASKS = ScriptedReply(calls=(("c-1", "look", "{}"), ("c-2", "charge", "{}")))
_LOST = ScriptedReply(text="lost", wait_ms=60_000)
_VERDICT = '{"outcome":"good","result":{"points":5}}'
_SAYS = ScriptedReply(text="Looked, and charged.", wait_ms=30)
_BOTH = {"look": returns('{"found": 1}'), "charge": returns('{"ok": true}')}
_LONG_MS = 60_000
_FIRST_TURN_AND_END: Sequence[ScriptedReply] = (_ASKS, _SAYS)


def _slow_charge(invocation: Invocation) -> int:
    """The write takes long, so that whatever happens next happens to it."""
    return _LONG_MS if invocation.step.step_id == "charge" else 20


async def _plain(stage: Stage) -> str:
    return await stage.to_the_end(await stage.start())


async def _child(stage: Stage) -> str:
    run_id = await _plain(stage)
    return await stage.to_the_end(await stage.child_of(run_id))


async def _with_labels(stage: Stage) -> str:
    return await stage.to_the_end(
        await stage.start(request_id="order-1", subject_json='{"sub":"ada"}', labels={"team": "red"})
    )


async def _controlled(stage: Stage) -> str:
    run_id = await stage.start()
    await stage.until(run_id, "tool_call_started")
    await stage.control(run_id, Steer(text="Be brief."), "steer")
    await stage.control(run_id, Pause(), "pause")
    await stage.until_phase(run_id, Phase.PAUSED)
    await stage.control(run_id, Resume(), "resume")
    return await stage.to_the_end(run_id)


async def _adjusted(stage: Stage) -> str:
    run_id = await stage.start()
    await stage.until(run_id, "tool_call_started")
    action = AdjustBounds(
        run=NewRunBounds(token_budget=60_000, run_timeout_ms=90_000, steps=9, events=900),
        visit=NewVisitBounds(max_iterations=4, model_requests=9, tool_calls=7, timeout_ms=80_000),
    )
    await stage.control(run_id, action, "more")
    return await stage.to_the_end(run_id)


async def _asked_at_its_limit(stage: Stage) -> str:
    run_id = await stage.start()
    await stage.until(run_id, "interrupt_raised")
    (interrupt,) = (await stage.process.runtime.runs.get(DEFAULT_TENANT, run_id)).state.oversight.interrupts
    await stage.control(run_id, Answer(interrupt_id=interrupt, option="raise", text="Go on."), "answer")
    return await stage.to_the_end(run_id)


async def _aborted(stage: Stage) -> str:
    run_id = await stage.start()
    await stage.until(run_id, "tool_call_started")
    await stage.control(run_id, Abort(mode=AbortMode.GRACEFUL, skip_routes=False), "abort")
    return await stage.to_the_end(run_id)


async def _aborted_now(stage: Stage) -> str:
    run_id = await stage.start()
    await stage.until(run_id, "tool_call_started", 2)
    await stage.control(run_id, Steer(text="Be brief."), "steer")
    await stage.control(run_id, Abort(mode=AbortMode.NOW, skip_routes=True), "abort")
    return await stage.to_the_end(run_id)


async def _crashed_in_the_write(stage: Stage) -> str:
    """A run whose worker died inside the write, and that asks about it."""
    run_id = await stage.start()
    await stage.until(run_id, "tool_call_started", 2)
    stage.crash()
    await stage.boot()
    await stage.until(run_id, "interrupt_raised")
    await stage.until_phase(run_id, Phase.WAITING)
    return run_id


async def _asked_and_answered(stage: Stage) -> str:
    run_id = await _crashed_in_the_write(stage)
    (interrupt,) = (await stage.process.runtime.runs.get(DEFAULT_TENANT, run_id)).state.oversight.interrupts
    await stage.control(run_id, Answer(interrupt_id=interrupt, option="succeeded", text="It did."), "answer")
    return await stage.to_the_end(run_id)


async def _asked_and_told(stage: Stage) -> str:
    run_id = await _crashed_in_the_write(stage)
    await stage.control(
        run_id, SubmitToolResult(call_id="c-2", output_json='{"ok": true}', error=""), "submit"
    )
    return await stage.to_the_end(run_id)


async def _asked_and_expired(stage: Stage) -> str:
    return await stage.to_the_end(await _crashed_in_the_write(stage))


async def _crashed_in_a_model_call(stage: Stage) -> str:
    """A run whose worker died while the model wrote its second reply; nobody has taken it over."""
    run_id = await stage.start()
    await stage.until(run_id, "model_call_started", 2)
    stage.crash()
    return run_id


async def _crashed_and_went_on(stage: Stage) -> str:
    run_id = await _crashed_in_a_model_call(stage)
    await stage.boot()
    return await stage.to_the_end(run_id)


async def _crashed_again_and_again(stage: Stage) -> str:
    run_id = await stage.start()
    for boots in range(1, 6):
        await stage.until(run_id, "model_call_started", boots)
        stage.crash()
        await stage.boot()
        if boots > 1:
            await stage.until(run_id, "run_recovered", boots)
        if (await stage.row(run_id)).phase.terminal:
            break
    return await stage.to_the_end(run_id)


async def _drained(stage: Stage) -> str:
    run_id = await stage.start()
    await stage.until(run_id, "model_call_started")
    await stage.drain()
    await stage.boot()
    return await stage.to_the_end(run_id)


async def _queued(stage: Stage) -> str:
    return (await _queued_behind_another(stage))[1]


async def _queued_and_driven(stage: Stage) -> str:
    other, run_id = await _queued_behind_another(stage)
    await stage.control(other, Abort(mode=AbortMode.NOW, skip_routes=True), "make-room")
    return await stage.to_the_end(run_id)


async def _threaded(stage: Stage) -> str:
    """A run that waits for its turn in a thread, where nothing has been said when it comes."""
    now = ThreadRequest(thread_id="talk", on_busy=OnBusy.REJECT)
    other = await stage.start(thread=now)
    await stage.until(other, "model_call_started")
    run_id = await stage.start(thread=replace(now, on_busy=OnBusy.ENQUEUE))
    await stage.control(other, Abort(mode=AbortMode.NOW, skip_routes=True), "end-turn")
    return await stage.to_the_end(run_id)


async def _queued_behind_another(stage: Stage) -> tuple[str, str]:
    """The run that has the only place, and one that waits for it."""
    await stage.drain()
    await stage.boot(places=1)
    other = await stage.start()
    await stage.until(other, "model_call_started")
    return other, await stage.start()


async def _paused(stage: Stage) -> str:
    run_id = await stage.start()
    await stage.until(run_id, "tool_call_started")
    await stage.control(run_id, Pause(), "pause")
    await stage.until_phase(run_id, Phase.PAUSED)
    return run_id


async def _paused_too_long(stage: Stage) -> str:
    return await stage.to_the_end(await _paused(stage))


async def _past_its_deadline(stage: Stage) -> str:
    return await stage.to_the_end(await stage.start(deadline_unix_ms=START_UNIX_MS + 2_000))


def _uncertain(_: Invocation) -> ToolResult:
    return ToolResult(ending=ToolEnding.UNCERTAIN, error="The connection broke.")


def _wants_to_know(invocation: Invocation) -> ToolResult:
    """Asks a person first, and does then what it is for."""
    if invocation.reply is not None:
        return ToolResult(ending=ToolEnding.COMPLETED, output_json='{"ok": true}')
    form = '{"type": "object", "properties": {"card": {"type": "string"}}, "required": ["card"]}'
    ask = ToolAsk(text="Which card?", schema_json=form, state_json='{"asked": 1}')
    return ToolResult(ending=ToolEnding.ASKING, ask=ask)


def _asks_a_person(invocation: Invocation) -> ToolResult:
    """Puts the question of a step, or of a model, into words."""
    action = invocation.step.action
    if not isinstance(action, HumanAction):
        raise TypeError("only a question is asked")
    return human.asked(action, invocation)


async def _asked_by_a_step(stage: Stage) -> str:
    run_id = await stage.start()
    await stage.until(run_id, "interrupt_raised")
    await stage.until_phase(run_id, Phase.WAITING)
    await stage.control(run_id, Answer(interrupt_id="question-1-1", option="later", text="at noon"), "first")
    await stage.until(run_id, "model_replied")
    await stage.until_phase(run_id, Phase.WAITING)
    await stage.control(run_id, Answer(interrupt_id="question-2-1", option="accept", text="red"), "second")
    await stage.control(run_id, Answer(interrupt_id="question-3-1", option="decline", text=""), "third")
    return await stage.to_the_end(run_id)


async def _approved(stage: Stage) -> str:
    run_id = await stage.start()
    for ordinal, sum_ in enumerate((1, 2, 3), start=1):
        await stage.until(run_id, "interrupt_raised", ordinal)
        await stage.until_phase(run_id, Phase.WAITING)
        asked = f"approval-{ordinal}-1"
        digest = hashlib.sha256(f'{{"sum":{sum_},"mark":"m"}}'.encode()).hexdigest()
        decision: Decision = Approve(interrupt_id=asked, digest=digest)
        if ordinal == 2:
            decision = EditAndApprove(interrupt_id=asked, digest=digest, arguments_json='{"sum":20}')
        elif ordinal == 3:
            decision = Reject(interrupt_id=asked, text="enough")
        await stage.control(run_id, decision, f"decision-{ordinal}")
    return await stage.to_the_end(run_id)


async def _asked_by_a_tool(stage: Stage) -> str:
    run_id = await stage.start()
    await stage.until(run_id, "interrupt_raised")
    await stage.until_phase(run_id, Phase.WAITING)
    answer = Answer(interrupt_id="question-2-1", option="accept", text='{"card": "red"}')
    await stage.control(run_id, answer, "answer")
    return await stage.to_the_end(run_id)


def _fails(_: Invocation) -> ToolResult:
    return ToolResult(ending=ToolEnding.FAILED, error="No such thing.")


def _cut(_: Invocation) -> ToolResult:
    return ToolResult(ending=ToolEnding.COMPLETED, output_json='"long, long"', cut_from_bytes=300_000)


def _stored(_: Invocation) -> ToolResult:
    whole = "long, long, and the end"
    return ToolResult(
        ending=ToolEnding.COMPLETED,
        output_json='"long, long"',
        tail="the end",
        whole=whole,
        cut_from_bytes=len(whole),
    )


_DENIED = ScriptedReply(
    text="Let me see.",
    calls=(
        ("a", "made_up", "{}"),
        ("b", "look", "{broken"),
        ("c", "look", '{"at": "noon"}'),
        ("d", "look", '{"at": 1}'),
        ("", "look", "{}"),
    ),
)

SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        name="tools",
        about="One turn asks for a read and a write, the next one answers.",
        workflow=_agent(),
        replies=_FIRST_TURN_AND_END,
        tools=_BOTH,
        play=_with_labels,
    ),
    Scenario(
        name="asked_by_a_tool",
        about="A tool asks a person before it goes on, and gets the answer.",
        workflow=_agent(),
        replies=_FIRST_TURN_AND_END,
        tools={**_BOTH, "charge": _wants_to_know},
        play=_asked_by_a_tool,
    ),
    Scenario(
        name="approved",
        about="Three calls have to be approved: one is, one is with other arguments, one is not.",
        workflow=_APPROVALS,
        replies=(
            ScriptedReply(calls=tuple((f"c-{sum_}", "charge", f'{{"sum":{sum_}}}') for sum_ in (1, 2, 3))),
            ScriptedReply(text="Charged."),
        ),
        tools={"charge": _BOTH["charge"]},
        play=_approved,
    ),
    Scenario(
        name="asked_by_a_step",
        about="A step asks, then an agent by its own words and by a form: an option, a choice, and a no.",
        workflow=_QUESTIONS,
        replies=(
            ScriptedReply(
                calls=(
                    ("c-1", "ask_person", '{"question":"Which colour?","options":["red","blue"]}'),
                    ("c-2", "card", "{}"),
                )
            ),
            ScriptedReply(text="Red, and no card."),
        ),
        tools={"confirm": _asks_a_person, "ask_person": _asks_a_person, "card": _asks_a_person},
        play=_asked_by_a_step,
    ),
    Scenario(
        name="flow",
        about="A completion with an outcome, a router, a tool step of the flow, and a completion in text.",
        workflow=_FLOW,
        replies=(
            ScriptedReply(text='{"outcome": "good", "result": {"points": 5}}'),
            ScriptedReply(text="Booked."),
        ),
        tools={"book": returns('{"number": 7}')},
        play=_plain,
    ),
    Scenario(
        name="repaired",
        about="An answer that is not JSON is sent back, then one that does not fit, then one does.",
        workflow=_FLOW.replace("output_key: verdict", "output_key: verdict\n      repairs: 2"),
        replies=(
            ScriptedReply(text="Good, I think."),
            ScriptedReply(text='{"outcome": "good", "result": {"points": "many"}}'),
            ScriptedReply(text='{"outcome": "good", "result": {"points": 1}}'),
            ScriptedReply(text="Not booked."),
        ),
        play=_plain,
    ),
    Scenario(
        name="invalid_output",
        about="No answer ever fits: the run fails with invalid_output.",
        workflow=_FLOW.replace("output_key: verdict", "output_key: verdict\n      repairs: 1").replace(
            '"*": end', "bad: end"
        ),
        replies=(
            ScriptedReply(text=""),
            ScriptedReply(text='{"outcome": "maybe"}'),
            ScriptedReply(text='{"outcome": "never"}'),
        ),
        play=_plain,
    ),
    Scenario(
        name="retried",
        about="The provider is busy, breaks off, and then answers.",
        workflow=_agent(),
        replies=(
            ModelFailure(FailureClass.RATE_LIMITED, "slow down", retry_after_ms=2_000, usage=Usage()),
            ModelFailure(FailureClass.CONNECTION, "the connection broke"),
            *_FIRST_TURN_AND_END,
        ),
        tools=_BOTH,
        play=_plain,
    ),
    Scenario(
        name="model_error",
        about="The provider refuses the request for good: the run fails.",
        workflow=_agent(),
        replies=(ModelFailure(FailureClass.BAD_REQUEST, "no such parameter", usage=Usage()),),
        play=_plain,
    ),
    Scenario(
        name="denied",
        about="Calls of a tool that is not there, with broken and with wrong arguments, failing, and cut.",
        workflow=_agent(),
        replies=(_DENIED, ScriptedReply(calls=(("e", "charge", "{}"),)), _SAYS),
        tools={"look": _cut, "charge": _fails},
        play=_plain,
    ),
    Scenario(
        name="stored",
        about="A result that is kept outside the log, and read on in.",
        workflow=_agent(),
        replies=(
            ScriptedReply(calls=(("a", "look", "{}"),)),
            ScriptedReply(calls=(("b", "read_result", '{"result": "result-1", "offset": 10}'),)),
            _SAYS,
        ),
        tools={"look": _stored},
        play=_plain,
    ),
    Scenario(
        name="finished",
        about="Ends by a call: text does not, a wrong call does not, nor does one beside a call that fails.",
        workflow=_agent(
            step="answer: finish_tool\ncompletion: explicit\n"
            "outcome: {enum: [good, bad], schema: {type: object, required: [points]}, output_key: verdict}"
        ),
        replies=(
            ScriptedReply(text="I shall look."),
            ScriptedReply(calls=(("f-1", "finish", '{"outcome":"great","result":{"points":9}}'),)),
            ScriptedReply(calls=(("c-1", "charge", "{}"), ("f-2", "finish", _VERDICT))),
            ScriptedReply(calls=(("f-3", "finish", _VERDICT), ("c-2", "look", "{}"))),
        ),
        tools={"look": returns('{"found": 1}'), "charge": _fails},
        play=_plain,
    ),
    Scenario(
        name="controlled",
        about="Guidance, a pause and a resume.",
        workflow=_agent(),
        replies=_FIRST_TURN_AND_END,
        tools=_BOTH,
        play=_controlled,
    ),
    Scenario(
        name="adjusted",
        about="Other bounds for the run and for the visit, while a tool is called.",
        workflow=_agent(
            top="bounds: {run_timeout: 2m, token_budget: 40000}\n"
            "bounds_cap: {token_budget: 80000, tool_calls: 50}"
        ),
        replies=_FIRST_TURN_AND_END,
        tools=_BOTH,
        play=_adjusted,
    ),
    Scenario(
        name="asked_at_its_limit",
        about="A step that reaches its turns asks, somebody raises them, and it goes on.",
        workflow=_agent(
            step="answer: text\non_limit: ask\nlimit_expiry: 2h\n"
            "bounds: {max_iterations: 1, model_requests: 6}",
            top="bounds: {run_timeout: 2m, token_budget: 40000}\nbounds_cap: {max_iterations: 2}",
        ),
        replies=_FIRST_TURN_AND_END,
        tools=_BOTH,
        play=_asked_at_its_limit,
    ),
    Scenario(
        name="aborted",
        about="A graceful abort, and the clean-up that the workflow routes it to.",
        workflow=_agent(
            step="answer: text\nroutes: {aborted: undo}",
            more=_UNDO,
        ),
        replies=(_ASKS,),
        tools={**_BOTH, "undo": returns("null")},
        play=_aborted,
    ),
    Scenario(
        name="aborted_now",
        about="An abort that cuts a write off, and guidance that comes too late.",
        workflow=_agent(),
        replies=(_ASKS,),
        tools=_BOTH,
        wait_ms=_slow_charge,
        play=_aborted_now,
    ),
    Scenario(
        name="answered",
        about="The worker dies inside a write; a person says that it happened.",
        workflow=_agent(),
        replies=_FIRST_TURN_AND_END,
        tools=_BOTH,
        wait_ms=_slow_charge,
        play=_asked_and_answered,
    ),
    Scenario(
        name="submitted",
        about="The worker dies inside a write; somebody hands in its result.",
        workflow=_agent(),
        replies=_FIRST_TURN_AND_END,
        tools=_BOTH,
        wait_ms=_slow_charge,
        play=_asked_and_told,
    ),
    Scenario(
        name="expired",
        about="A question about a write that nobody answers.",
        workflow=_agent(unknown="on_unknown: ask, unknown_expiry: 20s"),
        replies=(_ASKS,),
        tools=_BOTH,
        wait_ms=_slow_charge,
        play=_asked_and_expired,
    ),
    Scenario(
        name="unknown_fails",
        about="A write of unknown outcome whose policy is to fail.",
        workflow=_agent(unknown="on_unknown: fail"),
        replies=(_ASKS, _SAYS),
        tools={**_BOTH, "charge": _uncertain},
        play=_plain,
    ),
    Scenario(
        name="deadline",
        about="The caller's deadline passes while a tool runs.",
        workflow=_agent(),
        replies=(_ASKS,),
        tools=_BOTH,
        wait_ms=_slow_charge,
        play=_past_its_deadline,
    ),
    Scenario(
        name="exhausted",
        about="The turns run out; the model is asked for one closing answer.",
        workflow=_agent(
            step="answer: text\non_limit: final_answer\nbounds: {max_iterations: 2, tool_calls: 8}"
        ),
        replies=(
            _ASKS,
            ScriptedReply(calls=(("c-3", "look", "{}"),)),
            ScriptedReply(text="As far as I came: looked."),
        ),
        tools=_BOTH,
        play=_plain,
    ),
    Scenario(
        name="looped",
        about="The same write is repeated; the visit looks back, the model is told, and the step ends.",
        workflow=_agent(step="answer: text\nrepeat: {count: 2}\nreflect: {every: 2}"),
        replies=[ScriptedReply(calls=((f"c-{turn}", "charge", "{}"),)) for turn in (1, 2, 3)],
        tools=_BOTH,
        play=_plain,
    ),
    Scenario(
        name="grounded",
        about="A judge finds a claim without support, the model is sent back, and its second answer stands.",
        workflow=_agent(step="answer: text\nrepeat: {by: off}\nground: {threshold: 0.8}"),
        replies=(
            _ASKS,
            _SAYS,
            ScriptedReply(text='{"score": 0.5, "unsupported": ["that it looked twice"]}'),
            ScriptedReply(text="Looked once, and charged."),
            ScriptedReply(text='{"score": 1, "unsupported": []}'),
        ),
        tools=_BOTH,
        play=_plain,
    ),
    Scenario(
        name="unsupported",
        about="A judge gives no usable word; the answer does not stand.",
        workflow=_agent(step="answer: text\nrepeat: {by: args, nudge: false}\nground: {max_replans: 0}"),
        replies=(_ASKS, _SAYS, ScriptedReply(text="It seems fine.")),
        tools=_BOTH,
        play=_plain,
    ),
    Scenario(
        name="summed_up",
        about="The oldest turns go, and a summary stands for them; a later reply is empty and left out.",
        workflow=_agent(
            step="answer: text\nrepeat: {by: off}\nbounds: {model_requests: 30}\n"
            "compaction: {mode: summarise, at: 0.02, to: 0.01}"
        ),
        replies=(
            *[ScriptedReply(calls=((f"c-{turn}", "look", f'{{"at": {turn}}}'),)) for turn in range(4)],
            ScriptedReply(text="It looked at 0 and 1, and saw x."),
            *[ScriptedReply(calls=((f"c-{turn}", "look", f'{{"at": {turn}}}'),)) for turn in range(4, 6)],
            ScriptedReply(text=" "),
            _SAYS,
        ),
        tools={"look": returns(f'"{"x" * 3_000}"')},
        play=_plain,
    ),
    Scenario(
        name="overflowed",
        about="Malformed arguments are quoted, a reply breaks off, the provider refuses the conversation as "
        "too long, once. Reasoning goes back.",
        workflow=_agent(step="answer: text\nrepeat: {by: off}\ncompaction: window"),
        replies=(
            ScriptedReply(text="First I look.", reasoning="Hm.", calls=(("c-1", "look", "{"),)),
            ScriptedReply(
                reasoning="Signed.",
                blocks_json='{"thinking_blocks":[{"type":"thinking","thinking":"Signed.","signature":"c2ln"}]}',
                calls=(("c-2", "look", "{}"),),
            ),
            ScriptedReply(
                text="I have loo",
                breaks_off=ModelFailure(FailureClass.CONNECTION, "the connection broke", usage=Usage()),
            ),
            ModelFailure(FailureClass.CONTEXT_OVERFLOW, "the conversation is too long", usage=Usage()),
            _SAYS,
        ),
        tools={"look": returns(f'"{"x" * 3_000}"')},
        play=_plain,
    ),
    Scenario(
        name="budget",
        about="The token budget is nearly used, which is noticed, and then used up.",
        workflow=_agent(top="bounds: {run_timeout: 2m, token_budget: 12000}"),
        replies=(
            ScriptedReply(
                calls=(("c-1", "look", "{}"),), usage=Usage(prompt_tokens=6_000, completion_tokens=10)
            ),
            ScriptedReply(
                calls=(("c-2", "look", "{}"),), usage=Usage(prompt_tokens=5_000, completion_tokens=900)
            ),
        ),
        tools=_BOTH,
        play=_plain,
    ),
    Scenario(
        name="pause_over",
        about="Paused for as long as it may be: it ends.",
        workflow=_agent(top="bounds: {run_timeout: 2m, token_budget: 40000, pause_max: 5s}"),
        replies=_FIRST_TURN_AND_END[:1],
        tools=_BOTH,
        play=_paused_too_long,
    ),
    Scenario(
        name="pause_ends",
        about="Paused for as long as it may be: it goes on.",
        workflow=_agent(
            top="bounds: {run_timeout: 2m, token_budget: 40000, pause_max: 5s}\non_pause_max: resume"
        ),
        replies=_FIRST_TURN_AND_END,
        tools=_BOTH,
        play=_paused_too_long,
    ),
    Scenario(
        name="usage",
        about="Usage that is missing, that can not be, and that nearly uses the budgets of step and run.",
        workflow=_agent(
            top="bounds: {run_timeout: 2m, token_budget: 10500, cost_budget_usd: 1}",
            step="bounds: {token_budget: 10000}",
        ),
        replies=(
            ScriptedReply(calls=(("c-1", "look", "{}"),), usage=None),
            ScriptedReply(
                calls=(("c-2", "look", "{}"),), usage=Usage(prompt_tokens=2**62, completion_tokens=-1)
            ),
            ScriptedReply(
                calls=(("c-3", "look", "{}"),),
                usage=Usage(
                    prompt_tokens=200, completion_tokens=8_000, cached_tokens=100, reasoning_tokens=50
                ),
            ),
            _SAYS,
        ),
        tools=_BOTH,
        play=_plain,
    ),
    Scenario(
        name="supervised",
        about="A rule denies the second equal call, another steers; the judge has an answer given anew.",
        workflow=_agent(
            step="answer: text\n"
            "supervisor:\n"
            "  rules:\n"
            "    - {when: tool_repeated, tool: look, by: args, count: 2, then: deny_call, message: Seen.}\n"
            "    - {when: iteration_reached, gte: 2, then: steer, message: Come to an end.}\n"
            "  judge: {criteria: It is polite., every: 8, on_violation: steer}",
        ),
        replies=(
            _ASKS,
            ScriptedReply(calls=(("c-3", "look", "{}"),)),
            ScriptedReply(text="There."),
            ScriptedReply(text='{"passed": false, "reason": "rude"}'),
            ScriptedReply(text="There you are."),
            ScriptedReply(text='{"passed": true, "reason": "polite"}'),
        ),
        tools=_BOTH,
        play=_plain,
    ),
    Scenario(
        name="gated",
        about="A hook has calls made anew; a policy denies one; a judge has an answer mended; a rule ends it",
        workflow=_agent(
            top="bounds: {run_timeout: 2m, token_budget: 40000}\n"
            "hooks: [audit]\n"
            "policy: {use: guard, view: full}",
            step="answer: text\n"
            "guardrails: {output: [{deny: secret, on_violation: exit}, {judge: {criteria: It is polite.}}]}",
        ),
        replies=(
            ScriptedReply(calls=(("c-1", "charge", "{}"),)),
            ScriptedReply(calls=(("c-1", "look", "{}"), ("c-2", "charge", "{}"))),
            ScriptedReply(text="There."),
            ScriptedReply(text='{"passed": false, "reason": "rude"}'),
            ScriptedReply(text="The secret, please."),
        ),
        tools=_BOTH,
        play=_plain,
        answers=(
            ConsultReply(answer=True, metadata={"served": "Ann"}),
            ConsultReply(answer=True, retry=True),
            ConsultReply(answer=True),
            ConsultReply(answer=True),
            ConsultReply(answer=True, retry=True),
            ConsultReply(answer=True),
            ConsultReply(answer=False, reason="too much"),
            ConsultReply(answer=True),
            ConsultReply(answer=True),
        ),
    ),
    Scenario(
        name="stopped",
        about="A function fails, says no, then yes: the step stops and gives a closing answer.",
        workflow=_agent(
            step="outcome: {enum: [found, lost]}\n"
            "on_limit: final_answer\n"
            'stop_when: {any: [{expression: "calls[0].arguments.at > 3"}, {function: "checks:enough"}]}'
        ),
        replies=(
            ScriptedReply(calls=(("c-1", "look", "{}"),)),
            ScriptedReply(calls=(("c-2", "look", '{"at": 1}'),)),
            ScriptedReply(calls=(("c-3", "look", '{"at": 2}'),)),
            ScriptedReply(text='{"outcome": "found", "result": 7}'),
        ),
        tools=_BOTH,
        answers=(
            ConsultReply(answer=None, error="It broke."),
            ConsultReply(answer=False),
            ConsultReply(answer=True),
        ),
        play=_plain,
    ),
    Scenario(
        name="recovered",
        about="The worker dies while the model answers; another one asks again.",
        workflow=_agent(),
        replies=(_ASKS, _LOST, _SAYS),
        tools=_BOTH,
        play=_crashed_and_went_on,
    ),
    Scenario(
        name="crash_loop",
        about="Every worker that takes the run dies; the run is given up.",
        workflow=_agent(),
        replies=[_LOST] * 4,
        play=_crashed_again_and_again,
    ),
    Scenario(
        name="models_down",
        about="Neither its model nor the fallback can be reached; it waits, and the fallback answers.",
        workflow=_agent(step="answer: text\nfallbacks: [slow]\non_model_unavailable: wait"),
        replies=(
            *[ModelFailure(FailureClass.UNAVAILABLE, "down", usage=Usage())] * 9,
            ScriptedReply(text="I looked at nothing."),
        ),
        play=_plain,
    ),
    Scenario(
        name="drained",
        about="The worker is stopped while the model answers; another one goes on.",
        workflow=_agent(),
        replies=(_LOST, *_FIRST_TURN_AND_END),
        tools=_BOTH,
        play=_drained,
    ),
    Scenario(
        name="queued",
        about="Started where no place was free, driven when there was one.",
        workflow=_agent(),
        replies=(_LOST, *_FIRST_TURN_AND_END),
        tools=_BOTH,
        play=_queued_and_driven,
    ),
    Scenario(
        name="threaded",
        about="Started in a thread whose turn another run had, driven when its own had come.",
        workflow=_agent(step="answer: text\nthread: false"),
        replies=(_LOST, *_FIRST_TURN_AND_END),
        tools=_BOTH,
        play=_threaded,
    ),
    Scenario(
        name="with_a_child",
        about="An agent had another one look, which was a run of its own with a share of its tokens.",
        workflow=_FAMILY,
        replies=_FAMILY_REPLIES,
        tools=_BOTH,
        play=_plain,
    ),
    Scenario(
        name="child",
        about="The run of an agent that another one had as a tool.",
        workflow=_FAMILY,
        replies=_FAMILY_REPLIES,
        tools=_BOTH,
        play=_child,
    ),
    Scenario(
        name="open_cut",
        about="Not ended: the worker died while the model wrote its second reply.",
        workflow=_agent(),
        replies=(_ASKS, _LOST),
        tools=_BOTH,
        play=_crashed_in_a_model_call,
    ),
    Scenario(
        name="open_paused",
        about="Not ended: paused after the first turn.",
        workflow=_agent(),
        replies=(_ASKS,),
        tools=_BOTH,
        play=_paused,
    ),
    Scenario(
        name="open_queued",
        about="Not ended: no worker has taken it yet.",
        workflow=_agent(),
        replies=(_LOST,),
        play=_queued,
    ),
    Scenario(
        name="open_waiting",
        about="Not ended: asks what became of a write; the question is open until 2100.",
        workflow=_agent(unknown="on_unknown: ask, unknown_expiry: 30d"),
        replies=(_ASKS,),
        tools=_BOTH,
        wait_ms=_slow_charge,
        play=_crashed_in_the_write,
    ),
)
