"""Child runs in protobuf: their facts, their part of a plan, and how a run shows them.

Owns both ways. The end of a child, on its way to its parent, is the event that its parent will record.
"""

from google.protobuf.message import DecodeError

from jackline.v1 import event_pb2, plan_pb2, run_pb2
from jackline_server.codec.enums import EFFECT, PHASE, STOP_REASON
from jackline_server.codec.fact_coder import FactCoder
from jackline_server.codec.values import optional_json, set_time
from jackline_server.core.facts import ChildFinished, ChildStarted, Parent
from jackline_server.core.family import Family
from jackline_server.core.plan import AgentTool, ChildAction, SharePlan
from jackline_server.runtime.ports.store_errors import StoreDamaged


def _pack_started(fact: ChildStarted, event: event_pb2.StepEvent) -> None:
    into = event.child_started
    into.call_id = fact.call_id
    into.child_run_id = fact.child_run_id
    into.workflow = fact.workflow
    into.plan_digest = fact.plan_digest
    if fact.tokens is not None:
        into.token_share = fact.tokens
    if fact.cost_micros is not None:
        into.cost_share_micros = fact.cost_micros
    if fact.run_timeout_ms is not None:
        into.time_share_ms = fact.run_timeout_ms


def _unpack_started(event: event_pb2.StepEvent) -> ChildStarted:
    found = event.child_started
    return ChildStarted(
        call_id=found.call_id,
        child_run_id=found.child_run_id,
        workflow=found.workflow,
        plan_digest=found.plan_digest,
        tokens=found.token_share if found.HasField("token_share") else None,
        cost_micros=found.cost_share_micros if found.HasField("cost_share_micros") else None,
        run_timeout_ms=found.time_share_ms if found.HasField("time_share_ms") else None,
    )


def _pack_finished(fact: ChildFinished, event: event_pb2.StepEvent) -> None:
    into = event.child_finished
    into.call_id = fact.call_id
    into.child_run_id = fact.child_run_id
    into.state = PHASE.wire[fact.phase]
    into.signal = fact.signal
    into.stop_reason = STOP_REASON.wire[fact.stop_reason]
    into.stop_leaf = fact.stop_leaf
    into.tokens = fact.tokens
    into.cost_micros = fact.cost_micros
    into.active_ms = fact.active_ms


def _fill_finished(fact: ChildFinished, content: event_pb2.Content) -> None:
    if fact.result_json is not None:
        content.result.result_json = fact.result_json.encode()
    if fact.error:
        content.result.error = fact.error


def _unpack_finished(event: event_pb2.StepEvent) -> ChildFinished:
    found, content = event.child_finished, event.content.result
    return ChildFinished(
        call_id=found.call_id,
        child_run_id=found.child_run_id,
        phase=PHASE.read(found.state),
        signal=found.signal,
        stop_reason=STOP_REASON.read(found.stop_reason),
        stop_leaf=found.stop_leaf,
        tokens=found.tokens,
        cost_micros=found.cost_micros,
        active_ms=found.active_ms,
        result_json=optional_json(content.result_json),
        error=content.error,
    )


CHILD_FACTS = (
    FactCoder(fact=ChildStarted, field="child_started", pack=_pack_started, unpack=_unpack_started),
    FactCoder(
        fact=ChildFinished,
        field="child_finished",
        pack=_pack_finished,
        fill=_fill_finished,
        unpack=_unpack_finished,
    ),
)


def encode_ended(fact: ChildFinished) -> bytes:
    """The end of a child as its parent is told of it."""
    event = event_pb2.StepEvent()
    _pack_finished(fact, event)
    _fill_finished(fact, event.content)
    return event.SerializeToString(deterministic=True)


def decode_ended(data: bytes) -> ChildFinished:
    """The end of a child back. Raises StoreDamaged, UnknownFact."""
    try:
        return _unpack_finished(event_pb2.StepEvent.FromString(data))
    except DecodeError:
        raise StoreDamaged("the end of a child run can't be read") from None


def set_parent(into: event_pb2.ParentCall, parent: Parent) -> None:
    """Write which run started one."""
    into.run_id = parent.run_id
    into.call_id = parent.call_id
    into.root_run_id = parent.root_run_id
    if parent.tokens is not None:
        into.token_share = parent.tokens
    if parent.cost_micros is not None:
        into.cost_share_micros = parent.cost_micros
    if parent.run_timeout_ms is not None:
        into.time_share_ms = parent.run_timeout_ms


def read_parent(found: event_pb2.ParentCall) -> Parent:
    """Which run started one, as it was written."""
    return Parent(
        run_id=found.run_id,
        call_id=found.call_id,
        root_run_id=found.root_run_id,
        tokens=found.token_share if found.HasField("token_share") else None,
        cost_micros=found.cost_share_micros if found.HasField("cost_share_micros") else None,
        run_timeout_ms=found.time_share_ms if found.HasField("time_share_ms") else None,
    )


# --- plans -------------------------------------------------------------------------------------


def set_child(into: plan_pb2.ChildAction, action: ChildAction) -> None:
    """Write what starts a child."""
    into.workflow = action.workflow
    into.agent = action.agent
    _set_share(into.share, action.share)


def read_child(found: plan_pb2.ChildAction) -> ChildAction:
    """What starts a child."""
    return ChildAction(workflow=found.workflow, agent=found.agent, share=_read_share(found.share))


def set_agent_tool(into: plan_pb2.ModelStepPlan, tool: AgentTool | None) -> None:
    """Write what an agent is as a tool, if it is one."""
    if tool is not None:
        into.as_tool.effect = EFFECT.wire[tool.effect]
        _set_share(into.as_tool.share, tool.share)


def read_agent_tool(found: plan_pb2.ModelStepPlan) -> AgentTool | None:
    """What an agent is as a tool; None if it is none."""
    if not found.HasField("as_tool"):
        return None
    return AgentTool(effect=EFFECT.read(found.as_tool.effect), share=_read_share(found.as_tool.share))


def _set_share(into: plan_pb2.ChildShare, share: SharePlan) -> None:
    if share.token_budget is not None:
        into.token_budget = share.token_budget
    if share.cost_budget_micros is not None:
        into.cost_budget_micros = share.cost_budget_micros
    if share.run_timeout_ms is not None:
        into.run_timeout_ms = share.run_timeout_ms


def _read_share(found: plan_pb2.ChildShare) -> SharePlan:
    return SharePlan(
        token_budget=found.token_budget if found.HasField("token_budget") else None,
        cost_budget_micros=found.cost_budget_micros if found.HasField("cost_budget_micros") else None,
        run_timeout_ms=found.run_timeout_ms if found.HasField("run_timeout_ms") else None,
    )


# --- views -------------------------------------------------------------------------------------


def child_messages(family: Family | None) -> list[run_pb2.ChildRun]:
    """The children of a run as it shows them."""
    messages: list[run_pb2.ChildRun] = []
    for child in () if family is None else family.children.values():
        message = run_pb2.ChildRun(
            run_id=child.run_id,
            call_id=child.call_id,
            step_id=child.step_id,
            workflow=child.workflow,
            signal=child.signal,
            token_share=child.held_tokens,
            cost_share_micros=child.held_cost_micros,
            tokens=child.tokens,
            cost_micros=child.cost_micros,
        )
        if child.phase is not None:
            message.state = PHASE.wire[child.phase]
            set_time(message.active_time, child.active_ms)
        messages.append(message)
    return messages
