"""The columns and names of what the server tells: runs, questions, calls, messages, workflows, servers.

Owns what stands in a table and what `-o name` prints. Does not own writing it (`forms`), nor the views for a
person.
"""

from collections.abc import Iterable, Mapping

from jackline.v1.control_pb2 import CommandKind
from jackline.v1.run_pb2 import (
    Effect,
    Interrupt,
    InterruptKind,
    MessageRole,
    Run,
    RunMessage,
    RunState,
    ToolCall,
    ToolCallStatus,
)
from jackline.v1.run_service_pb2 import DurabilityClass, GetServerInfoResponse
from jackline.v1.thread_pb2 import Thread, ThreadMessage
from jackline.v1.workflow_service_pb2 import DescribeWorkflowResponse, GetWorkflowResponse, Revision
from jackline_client.cli.forms import Column, Listing
from jackline_client.cli.wording import arguments, enum_word, stamp

DIGEST = 12
NO_SIGNAL_YET = "running"
"""The signal of a run that has none yet, whatever its state."""
_LONG = 160


def _pairs(values: Mapping[str, str]) -> str:
    return ",".join(f"{key}={values[key]}" for key in sorted(values))


def _words(values: Iterable[str]) -> str:
    return ",".join(values)


RUNS: Listing[Run] = Listing(
    columns=(
        Column(head="RUN", width=30, cell=lambda run: run.run_id),
        Column(head="STATE", width=12, cell=lambda run: enum_word(RunState.Name, run.state, "RUN_STATE_")),
        Column(head="SIGNAL", width=16, cell=lambda run: "" if run.signal == NO_SIGNAL_YET else run.signal),
        Column(head="CREATED (UTC)", width=19, cell=lambda run: stamp(run.created_at)),
        Column(head="TOKENS", width=10, is_number=True, cell=lambda run: f"{run.ledger.tokens:,}"),
        Column(head="WORKFLOW", width=20, cell=lambda run: run.workflow),
        Column(
            head="COST",
            width=10,
            is_wide=True,
            is_number=True,
            cell=lambda run: f"${run.ledger.cost_micros / 1_000_000:.4f}",
        ),
        Column(
            head="ACTIVE",
            width=10,
            is_wide=True,
            is_number=True,
            cell=lambda run: f"{run.active_time.ToMilliseconds() / 1000:,.1f}s",
        ),
        Column(head="EVENT", width=6, is_wide=True, is_number=True, cell=lambda run: str(run.head_sequence)),
        Column(head="STEP", width=16, is_wide=True, cell=lambda run: run.step_id),
        Column(head="THREAD", width=16, is_wide=True, cell=lambda run: run.thread_id),
        Column(head="LABELS", is_wide=True, limit=_LONG, cell=lambda run: _pairs(run.labels)),
    ),
    name=lambda run: run.run_id,
    none="no runs",
)

THREADS: Listing[Thread] = Listing(
    columns=(
        Column(head="THREAD", width=30, cell=lambda thread: thread.thread_id),
        Column(head="MESSAGES", width=8, is_number=True, cell=lambda thread: f"{thread.message_count:,}"),
        Column(head="RUNS", width=6, is_number=True, cell=lambda thread: f"{thread.ended_runs:,}"),
        Column(
            head="TOKENS",
            width=10,
            is_number=True,
            cell=lambda thread: f"{thread.usage.prompt_tokens + thread.usage.completion_tokens:,}",
        ),
        Column(head="ACTIVE RUN", width=30, cell=lambda thread: thread.active_run_id),
        Column(head="CHANGED (UTC)", width=19, cell=lambda thread: stamp(thread.changed_at)),
        Column(
            head="COST",
            width=10,
            is_wide=True,
            is_number=True,
            cell=lambda thread: f"${thread.cost_micros / 1_000_000:.4f}",
        ),
        Column(
            head="WAITING",
            width=7,
            is_wide=True,
            is_number=True,
            cell=lambda thread: str(thread.waiting_runs),
        ),
        Column(
            head="PENDING",
            width=7,
            is_wide=True,
            is_number=True,
            cell=lambda thread: str(thread.pending_messages),
        ),
        Column(head="CREATED (UTC)", width=19, is_wide=True, cell=lambda thread: stamp(thread.created_at)),
    ),
    name=lambda thread: thread.thread_id,
    none="no threads; `jackline run --thread ID` begins one",
)

THREAD_MESSAGES: Listing[ThreadMessage] = Listing(
    columns=(
        Column(head="POSITION", width=8, is_number=True, cell=lambda one: str(one.position)),
        Column(
            head="ROLE", width=10, cell=lambda one: enum_word(MessageRole.Name, one.role, "MESSAGE_ROLE_")
        ),
        Column(head="RUN", width=30, is_wide=True, cell=lambda one: one.run_id),
        Column(head="ADDED BY", width=16, is_wide=True, cell=lambda one: one.principal),
        Column(head="ADDED (UTC)", width=19, is_wide=True, cell=lambda one: stamp(one.added_at)),
        Column(
            head="CALLS",
            width=24,
            is_wide=True,
            cell=lambda one: _words(f"{call.tool}:{call.call_id}" for call in one.message.tool_calls),
        ),
        Column(head="TEXT", limit=_LONG, cell=lambda one: one.message.text),
    ),
    name=lambda one: str(one.position),
    none="no messages",
)

INTERRUPTS: Listing[Interrupt] = Listing(
    columns=(
        Column(head="RUN", width=30, cell=lambda one: one.run_id),
        Column(head="INTERRUPT", width=30, cell=lambda one: one.interrupt_id),
        Column(
            head="KIND", width=16, cell=lambda one: enum_word(InterruptKind.Name, one.kind, "INTERRUPT_KIND_")
        ),
        Column(head="SINCE (UTC)", width=19, cell=lambda one: stamp(one.raised_at)),
        Column(head="UNTIL (UTC)", width=19, is_wide=True, cell=lambda one: stamp(one.expires_at)),
        Column(head="STEP", width=16, is_wide=True, cell=lambda one: one.step_id),
        Column(head="TOOL", width=20, is_wide=True, cell=lambda one: one.tool),
        Column(head="OPTIONS", width=24, is_wide=True, cell=lambda one: _words(one.options)),
        Column(head="QUESTION", limit=_LONG, cell=lambda one: " ".join(one.question.split("\n"))),
    ),
    name=lambda one: f"{one.run_id} {one.interrupt_id}",
    none="no open questions",
)

CALLS: Listing[ToolCall] = Listing(
    columns=(
        Column(head="CALL", width=24, cell=lambda call: call.call_id),
        Column(
            head="STATUS",
            width=12,
            cell=lambda call: enum_word(ToolCallStatus.Name, call.status, "TOOL_CALL_STATUS_"),
        ),
        Column(head="STEP", width=16, cell=lambda call: call.step_id),
        Column(
            head="EFFECT",
            width=10,
            is_wide=True,
            cell=lambda call: enum_word(Effect.Name, call.effect, "EFFECT_") if call.effect else "",
        ),
        Column(head="TURN", width=4, is_wide=True, is_number=True, cell=lambda call: str(call.iteration)),
        Column(head="ATTEMPTS", width=8, is_wide=True, is_number=True, cell=lambda call: str(call.attempts)),
        Column(
            head="MS",
            width=8,
            is_wide=True,
            is_number=True,
            cell=lambda call: f"{call.duration.ToMilliseconds():,}",
        ),
        Column(head="TOOL", width=20, cell=lambda call: call.tool),
        Column(head="ARGUMENTS", width=40, limit=_LONG, cell=lambda call: arguments(call.arguments_json)),
        Column(head="RESULT", is_wide=True, limit=_LONG, cell=lambda call: call.result),
    ),
    name=lambda call: call.call_id,
    none="no tool calls",
)

MESSAGES: Listing[RunMessage] = Listing(
    columns=(
        Column(
            head="ROLE",
            width=10,
            cell=lambda message: enum_word(MessageRole.Name, message.role, "MESSAGE_ROLE_"),
        ),
        Column(head="SOURCE", width=20, cell=lambda message: message.provenance),
        Column(head="CALL", width=24, is_wide=True, cell=lambda message: message.call_id),
        Column(
            head="CALLS",
            width=24,
            cell=lambda message: _words(f"{call.tool}:{call.call_id}" for call in message.tool_calls),
            is_wide=True,
        ),
        Column(head="TEXT", limit=_LONG, cell=lambda message: message.text),
    ),
    name=None,
    none="no messages",
)


def _digest(revision: Revision) -> str:
    return revision.digest[:DIGEST]


def _full_name(revision: Revision) -> str:
    return f"{revision.name}@{revision.digest}"


def _source(revision: Revision) -> str:
    return "the server's folder" if revision.owned_by_files else "put"


WORKFLOWS: Listing[Revision] = Listing(
    columns=(
        Column(head="WORKFLOW", width=30, cell=lambda revision: revision.name),
        Column(head="DIGEST", width=12, cell=_digest),
        Column(head="STORED (UTC)", width=19, cell=lambda revision: stamp(revision.created_at)),
        Column(head="FROM", width=19, cell=_source),
        Column(head="WHOLE DIGEST", is_wide=True, limit=64, cell=lambda revision: revision.digest),
    ),
    name=lambda revision: revision.name,
    none="no workflows; `jackline workflow put FILE` adds one",
)

WORKFLOW: Listing[GetWorkflowResponse] = Listing(
    columns=(
        Column(head="WORKFLOW", width=30, cell=lambda found: found.revision.name),
        Column(head="DIGEST", width=12, cell=lambda found: _digest(found.revision)),
        Column(head="STORED (UTC)", width=19, cell=lambda found: stamp(found.revision.created_at)),
        Column(head="FROM", width=19, cell=lambda found: _source(found.revision)),
        Column(
            head="FILES", is_wide=True, limit=_LONG, cell=lambda found: _words(sorted(found.workflow.files))
        ),
    ),
    name=lambda found: _full_name(found.revision),
)

DESCRIPTION: Listing[DescribeWorkflowResponse] = Listing(
    columns=(
        Column(head="WORKFLOW", width=30, cell=lambda found: found.revision.name),
        Column(head="DIGEST", width=12, cell=lambda found: _digest(found.revision)),
        Column(head="FLOW", width=30, limit=_LONG, cell=lambda found: _words(found.plan.flow)),
        Column(
            head="MODEL CALLS",
            width=11,
            is_wide=True,
            is_number=True,
            cell=lambda found: _most(found, "model_requests"),
        ),
        Column(
            head="TOOL CALLS",
            width=10,
            is_wide=True,
            is_number=True,
            cell=lambda found: _most(found, "tool_calls"),
        ),
        Column(
            head="MOST TOKENS",
            width=11,
            is_wide=True,
            is_number=True,
            cell=lambda found: _most(found, "tokens"),
        ),
        Column(
            head="TOOLS",
            is_wide=True,
            limit=_LONG,
            cell=lambda found: _words(tool.name for tool in found.tools),
        ),
    ),
    name=lambda found: _full_name(found.revision),
)


def _most(found: DescribeWorkflowResponse, field: str) -> str:
    most = found.worst_case
    values = {
        "model_requests": most.model_requests if most.HasField("model_requests") else None,
        "tool_calls": most.tool_calls if most.HasField("tool_calls") else None,
        "tokens": most.tokens if most.HasField("tokens") else None,
    }
    value = values[field]
    return "" if value is None else f"{value:,}"


SERVER: Listing[GetServerInfoResponse] = Listing(
    columns=(
        Column(head="VERSION", width=12, cell=lambda found: found.version),
        Column(
            head="DURABILITY",
            width=12,
            cell=lambda found: enum_word(DurabilityClass.Name, found.durability, "DURABILITY_CLASS_"),
        ),
        Column(head="MODELS", width=20, limit=_LONG, cell=lambda found: _words(found.models)),
        Column(
            head="STEP KINDS",
            width=20,
            is_wide=True,
            limit=_LONG,
            cell=lambda found: _words(found.step_kinds),
        ),
        Column(
            head="COMMANDS",
            width=20,
            is_wide=True,
            limit=_LONG,
            cell=lambda found: _words(
                enum_word(CommandKind.Name, kind, "COMMAND_KIND_") for kind in found.commands
            ),
        ),
        Column(head="FEATURES", is_wide=True, limit=_LONG, cell=lambda found: _words(found.features)),
    ),
    name=lambda found: found.version,
)
