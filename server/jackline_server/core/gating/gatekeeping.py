"""Who has to be asked before the loop goes on, and what their answers lead to.

Owns when hooks, guardrails, policies and judges are asked: around a run, and around what the loop has decided
within a step. The loop itself knows none of them: what it decided is held back until everybody has let it
pass. Does not own what an answer means (`evolve_gates`) or how a value is checked (`guardrails`, `judges`).
"""

from collections.abc import Callable

from jackline_server.core import exits, json_text
from jackline_server.core.context import step_input
from jackline_server.core.deciding import leaving
from jackline_server.core.exits import Exit
from jackline_server.core.facts import Consulted, ConsultKind, Purpose, StopReason
from jackline_server.core.folding.evolve_calls import is_settled
from jackline_server.core.frozen import change
from jackline_server.core.gate_plans import GatesPlan, GuardrailPlan, HookPlan, Judged, Point
from jackline_server.core.gates import Gates, Veto
from jackline_server.core.gating import gate_views, guarded_answers, guardrails, judges
from jackline_server.core.gating.gated_calls import before_tools
from jackline_server.core.instruments import Instruments
from jackline_server.core.plan import JsonObject, ModelStep, ToolStep
from jackline_server.core.reading import finish_tool, timing
from jackline_server.core.state import RunState, Visit
from jackline_server.core.steps import CallModel, CallTools, Consult, Moment, Question, Record, Step

# --- around a run --------------------------------------------------------------------------------


def at_start(state: RunState, now: Moment, instruments: Instruments) -> Step | None:
    """What has to happen before the first step; None once everybody has let the run begin."""
    plan, found = state.plan.gates, state.gates
    if plan is None or found is None or state.ledger.steps:
        return None
    if found.veto is not None:
        return leaving.end_run(_vetoed(found.veto))
    broken = guardrails.violated(plan.input, json_text.parse(state.started.input_json), instruments)
    if broken is not None:
        told, end = _refused_input(*broken)
        return Record(facts=(told, *leaving.end_run(end).facts))
    return _ask(state, plan, Point.BEFORE_RUN, now, lambda: gate_views.run_begins(state))


def at_end(state: RunState, now: Moment, end: Exit) -> Step:
    """The end of the run, once everybody has been told."""
    plan = state.plan.gates
    told = None
    if plan is not None and state.gates is not None:
        told = _ask(state, plan, Point.AFTER_RUN, now, lambda: gate_views.run_ends(state, end))
    return told or leaving.end_run(end)


# --- within a step -------------------------------------------------------------------------------


def first(
    state: RunState, visit: Visit, step: ModelStep | ToolStep, *, now: Moment, instruments: Instruments
) -> Step | None:
    """What has to happen before the loop may look at the visit; None if nothing."""
    plan, found = step.gates, state.gates
    if plan is None or found is None:
        return None
    if found.veto is not None:
        return leaving.leave(state, visit, _vetoed(found.veto))
    looked = _after_tool_calls(state, visit, plan, now)
    if looked is not None or isinstance(step, ToolStep):
        return looked
    if not found.began:
        return _step_input(state, visit, step, plan, now=now, instruments=instruments)
    if found.newest is None:
        return None
    after = _ask(state, plan, Point.AFTER_MODEL_CALL, now, lambda: gate_views.reply(state, visit))
    return after or _after_turn(state, visit, step, plan, found, now)


def let_pass(
    state: RunState,
    visit: Visit,
    step: ModelStep | ToolStep,
    decided: Step,
    *,
    now: Moment,
    instruments: Instruments,
) -> Step:
    """What the loop has decided, or what has to happen before it."""
    plan = step.gates
    if plan is None:
        return decided
    held: Step | None = None
    match decided:
        case CallModel():
            held = _before_model(state, visit, plan, decided, now)
        case CallTools():
            held = before_tools(state, visit, step, decided, now=now, instruments=instruments)
        case Record() if isinstance(step, ModelStep):
            held = guarded_answers.before_leaving(
                state, visit, step, decided, now_active_ms=now.active_ms, instruments=instruments
            )
        case _:
            pass
    return held or decided


def undisturbed(state: RunState, visit: Visit) -> tuple[RunState, Visit]:
    """The run as the loop has to see it while a judge is at work: the judge's request is none of its own."""
    if state.gates is None or state.gates.trial is None:
        return state, visit
    calm = change(visit, request_since_ms=None)
    return change(state, visit=calm), calm


def _refused_input(rail: GuardrailPlan, problem: str) -> tuple[Consulted, Exit]:
    """What is told of an input that did not pass, and how whatever it was given to ends."""
    end = exits.abnormal(StopReason.GUARDRAIL, leaf=rail.place, error=f"the input: {problem}")
    return guardrails.violation(rail, Point.INPUT, problem), end


def _vetoed(veto: Veto) -> Exit:
    return exits.abnormal(StopReason.HOOK_VETO, leaf=veto.who, error=veto.reason or "a hook said no")


def _step_input(
    state: RunState, visit: Visit, step: ModelStep, plan: GatesPlan, *, now: Moment, instruments: Instruments
) -> Step | None:
    """What the step is given has to pass before its model sees any of it."""
    if not plan.input:
        return None
    found = state.gates
    refusal = None if found is None else found.refusal
    if refusal is not None:
        end = exits.abnormal(StopReason.GUARDRAIL, leaf=refusal.who, error=f"the input: {refusal.reason}")
        return leaving.leave(state, visit, end)
    given = step_input(state.context, step.input)
    broken = guardrails.violated(plan.input, given, instruments)
    if broken is not None:
        told, end = _refused_input(*broken)
        return Record(facts=(told, *leaving.leave(state, visit, end).facts))
    for rail in plan.input:
        if isinstance(rail.check, Judged) and not _heard(found, Point.INPUT, "", rail.place):
            case = judges.Case(
                who=rail.place,
                judged=rail.check,
                point=Point.INPUT,
                subject="",
                title="Input",
                text=json_text.write(given),
            )
            return judges.try_case(state, visit, step, case, now_active_ms=now.active_ms)
    return None


def _after_turn(
    state: RunState, visit: Visit, step: ModelStep, plan: GatesPlan, found: Gates, now: Moment
) -> Step | None:
    if found.newest is None or found.newest.purpose is not Purpose.TURN or not plan.at(Point.AFTER_TURN):
        return None
    calls = (state.calls[call_id] for call_id in visit.open_calls)
    if any(not finish_tool.is_call(step, call) and not is_settled(call, state.plan) for call in calls):
        return None
    return _ask(state, plan, Point.AFTER_TURN, now, lambda: gate_views.turn(state, visit, now))


def _after_tool_calls(state: RunState, visit: Visit, plan: GatesPlan, now: Moment) -> Step | None:
    """The hook that looks next at calls which have ended, with all the calls that it has to look at."""
    waiting = [state.calls[call_id] for call_id in visit.open_calls if state.calls[call_id].awaits]
    if not waiting:
        return None
    who = waiting[0].awaits[0]
    hook = next((one for one in plan.hooks if one.who == who), None)
    if hook is None:
        raise KeyError(who)
    return Consult(
        questions=tuple(
            _question(state, hook, Point.AFTER_TOOL_CALL, now, gate_views.ended(call), call.call_id)
            for call in waiting
            if call.awaits[0] == who
        )
    )


def _before_model(
    state: RunState, visit: Visit, plan: GatesPlan, call: CallModel, now: Moment
) -> Step | None:
    started = call.started
    if started.purpose.is_aside or started.attempt > 1:
        return None
    if started.purpose is Purpose.TURN:
        asked = _ask(state, plan, Point.BEFORE_TURN, now, lambda: gate_views.turn(state, visit, now))
        if asked is not None:
            return asked
    return _ask(state, plan, Point.BEFORE_MODEL_CALL, now, lambda: gate_views.request(call))


# --- asking --------------------------------------------------------------------------------------


def _ask(
    state: RunState, plan: GatesPlan, point: Point, now: Moment, view: Callable[[], JsonObject]
) -> Consult | None:
    """The question to the first hook at a point that has not answered yet: a veto spares the others."""
    for hook in plan.at(point):
        if not _heard(state.gates, point, "", hook.who):
            return Consult(questions=(_question(state, hook, point, now, view()),))
    return None


def _heard(found: Gates | None, point: Point, subject: str, who: str) -> bool:
    return found is not None and (point, subject, who) in found.heard


def _question(
    state: RunState, hook: HookPlan, point: Point, now: Moment, view: JsonObject, subject: str = ""
) -> Question:
    left = timing.left_ms(state, now.active_ms)
    return Question(
        kind=ConsultKind.HOOK,
        who=hook.who,
        target=hook.name,
        variables=view,
        timeout_ms=hook.timeout_ms if left is None else min(hook.timeout_ms, left),
        point=point,
        subject=subject,
    )
