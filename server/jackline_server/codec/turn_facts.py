"""Facts of model calls, tool calls and answers, in protobuf."""

from jackline.v1 import event_pb2
from jackline_server.codec.enums import (
    ANSWER_PROBLEM,
    ATTEMPT_LIMIT,
    CALL_PROBLEM,
    CALL_STATUS,
    EFFECT,
    FAILURE_CLASS,
    FINISH_REASON,
    PURPOSE,
    STOP_REASON,
)
from jackline_server.codec.fact_coder import FactCoder
from jackline_server.codec.values import optional_json, read_ask, read_usage, set_ask, set_usage
from jackline_server.core.exits import DEFAULT, ERROR
from jackline_server.core.facts import (
    AnswerRejected,
    CallStatus,
    ModelCallFailed,
    ModelCallStarted,
    ModelReplied,
    ToolCallFinished,
    ToolCallRequested,
    ToolCallStarted,
)
from jackline_server.core.media import ResultMedia
from jackline_server.core.reasoning import ReasoningBlocks


def _pack_model_call_started(fact: ModelCallStarted, event: event_pb2.StepEvent) -> None:
    into = event.model_call_started
    into.purpose = PURPOSE.wire[fact.purpose]
    into.attempt = fact.attempt
    into.model = fact.model
    into.reserved_tokens = fact.reserved_tokens
    into.reserved_cost_micros = fact.reserved_cost_micros
    into.max_output_tokens = fact.max_output_tokens
    if fact.limit is not None:
        into.limit = STOP_REASON.wire[fact.limit]
        into.limit_leaf = fact.limit_leaf
    if fact.summarised:
        into.summarised = fact.summarised


def _unpack_model_call_started(event: event_pb2.StepEvent) -> ModelCallStarted:
    found = event.model_call_started
    return ModelCallStarted(
        iteration=event.iteration,
        purpose=PURPOSE.read(found.purpose),
        attempt=found.attempt,
        model=found.model,
        prompt_tokens=found.reserved_tokens - found.max_output_tokens,
        max_output_tokens=found.max_output_tokens,
        reserved_cost_micros=found.reserved_cost_micros,
        limit=STOP_REASON.read_optional(found.limit),
        limit_leaf=found.limit_leaf,
        summarised=found.summarised,
    )


def _pack_model_replied(fact: ModelReplied, event: event_pb2.StepEvent) -> None:
    into = event.model_replied
    set_usage(into.usage, fact.usage)
    into.cost_micros = fact.cost_micros
    into.finish_reason = FINISH_REASON.wire[fact.finish]
    into.tool_calls = fact.tool_calls
    into.tokens_used = fact.tokens_used
    into.latency_ms = fact.latency_ms
    into.first_token_ms = fact.first_token_ms
    if fact.calls_in_text:
        into.calls_in_text = True


def _fill_model_replied(fact: ModelReplied, content: event_pb2.Content) -> None:
    if fact.text:
        content.reply.text = fact.text
    if fact.reasoning:
        content.reply.reasoning = fact.reasoning
    if fact.blocks is not None:
        into = content.reply.blocks
        into.profile = fact.blocks.profile
        into.model = fact.blocks.model
        into.field = fact.blocks.field
        into.blocks_json = fact.blocks.blocks_json.encode()
        into.SetInParent()


def _read_blocks(found: event_pb2.ReasoningBlocks) -> ReasoningBlocks:
    return ReasoningBlocks(
        profile=found.profile, model=found.model, field=found.field, blocks_json=found.blocks_json.decode()
    )


def _unpack_model_replied(event: event_pb2.StepEvent) -> ModelReplied:
    found, content = event.model_replied, event.content.reply
    return ModelReplied(
        usage=read_usage(found.usage),
        cost_micros=found.cost_micros,
        finish=FINISH_REASON.read(found.finish_reason),
        tool_calls=found.tool_calls,
        tokens_used=found.tokens_used,
        latency_ms=found.latency_ms,
        first_token_ms=found.first_token_ms,
        text=content.text,
        reasoning=content.reasoning,
        blocks=_read_blocks(content.blocks) if content.HasField("blocks") else None,
        calls_in_text=found.calls_in_text,
    )


def _pack_model_call_failed(fact: ModelCallFailed, event: event_pb2.StepEvent) -> None:
    into = event.model_call_failed
    into.failure = FAILURE_CLASS.wire[fact.failure]
    if fact.retry_in_ms is not None:
        into.retry_in_ms = fact.retry_in_ms
    set_usage(into.usage, fact.usage)
    into.cost_micros = fact.cost_micros
    if fact.text:
        into.interrupted = True
    if fact.limit is not None:
        into.limit = ATTEMPT_LIMIT.wire[fact.limit]
    if fact.waits:
        into.waits = True


def _fill_model_call_failed(fact: ModelCallFailed, content: event_pb2.Content) -> None:
    if fact.text:
        content.reply.text = fact.text
        content.reply.error = fact.error
    elif fact.error:
        content.text = fact.error


def _unpack_model_call_failed(event: event_pb2.StepEvent) -> ModelCallFailed:
    found = event.model_call_failed
    return ModelCallFailed(
        failure=FAILURE_CLASS.read(found.failure),
        retry_in_ms=found.retry_in_ms if found.HasField("retry_in_ms") else None,
        usage=read_usage(found.usage),
        cost_micros=found.cost_micros,
        error=event.content.reply.error or event.content.text,
        text=event.content.reply.text,
        limit=ATTEMPT_LIMIT.read_optional(found.limit),
        waits=found.waits,
    )


def _pack_tool_call_requested(fact: ToolCallRequested, event: event_pb2.StepEvent) -> None:
    into = event.tool_call_requested
    into.call_id = fact.call_id
    into.ordinal = fact.ordinal
    into.tool = fact.tool


def _fill_tool_call_requested(fact: ToolCallRequested, content: event_pb2.Content) -> None:
    content.call.tool = fact.name
    content.call.arguments = fact.arguments.encode()


def _unpack_tool_call_requested(event: event_pb2.StepEvent) -> ToolCallRequested:
    found, content = event.tool_call_requested, event.content.call
    return ToolCallRequested(
        call_id=found.call_id,
        ordinal=found.ordinal,
        tool=found.tool,
        name=content.tool,
        arguments=content.arguments.decode(),
    )


def _pack_tool_call_started(fact: ToolCallStarted, event: event_pb2.StepEvent) -> None:
    into = event.tool_call_started
    into.call_id = fact.call_id
    into.tool = fact.tool
    into.call_key = fact.call_key
    into.effect = EFFECT.wire[fact.effect]
    into.attempt = fact.attempt


def _unpack_tool_call_started(event: event_pb2.StepEvent) -> ToolCallStarted:
    found = event.tool_call_started
    return ToolCallStarted(
        call_id=found.call_id,
        tool=found.tool,
        call_key=found.call_key,
        effect=EFFECT.read(found.effect),
        attempt=found.attempt,
    )


def _pack_tool_call_finished(fact: ToolCallFinished, event: event_pb2.StepEvent) -> None:
    into = event.tool_call_finished
    into.call_id = fact.call_id
    into.tool = fact.tool
    into.status = CALL_STATUS.wire[fact.status]
    into.signal = DEFAULT if fact.status is CallStatus.COMPLETED else ERROR
    into.duration_ms = fact.duration_ms
    if fact.waited_ms:
        into.waited_ms = fact.waited_ms
    if fact.problem is not None:
        into.problem = CALL_PROBLEM.wire[fact.problem]
    into.cut_from_bytes = fact.cut_from_bytes
    into.abandoned = fact.abandoned
    if fact.reused_from:
        into.reused_from = fact.reused_from
    if fact.retry_in_ms is not None:
        into.retry_in_ms = fact.retry_in_ms
    if fact.timed_out:
        into.timed_out = True
    if fact.blob:
        into.stored = True
    if fact.media:
        into.media = len(fact.media)


def _fill_tool_call_finished(fact: ToolCallFinished, content: event_pb2.Content) -> None:
    if fact.output_json is not None:
        content.tool_result.output_json = fact.output_json.encode()
    if fact.error:
        content.tool_result.error = fact.error
    if fact.tail:
        content.tool_result.tail = fact.tail
    if fact.blob:
        content.tool_result.blob = fact.blob
    if fact.ask is not None:
        set_ask(content.tool_result.question, fact.ask)
    for part in fact.media:
        content.tool_result.media.add(
            media_type=part.media_type, size=part.size, name=part.name, blob=part.blob
        )


def _unpack_tool_call_finished(event: event_pb2.StepEvent) -> ToolCallFinished:
    found, content = event.tool_call_finished, event.content.tool_result
    return ToolCallFinished(
        call_id=found.call_id,
        tool=found.tool,
        status=CALL_STATUS.read(found.status),
        duration_ms=found.duration_ms,
        waited_ms=found.waited_ms,
        problem=CALL_PROBLEM.read_optional(found.problem),
        cut_from_bytes=found.cut_from_bytes,
        abandoned=found.abandoned,
        reused_from=found.reused_from,
        retry_in_ms=found.retry_in_ms if found.HasField("retry_in_ms") else None,
        timed_out=found.timed_out,
        output_json=optional_json(content.output_json),
        error=content.error,
        tail=content.tail,
        blob=content.blob,
        media=tuple(
            [
                ResultMedia(media_type=part.media_type, size=part.size, name=part.name, blob=part.blob)
                for part in content.media
            ]
        ),
        ask=read_ask(content.question) if content.HasField("question") else None,
    )


def _pack_answer_rejected(fact: AnswerRejected, event: event_pb2.StepEvent) -> None:
    into = event.answer_rejected
    into.problem = ANSWER_PROBLEM.wire[fact.problem]
    into.repair = fact.repair
    into.call_id = fact.call_id


def _fill_answer_rejected(fact: AnswerRejected, content: event_pb2.Content) -> None:
    if fact.explanation:
        content.text = fact.explanation


def _unpack_answer_rejected(event: event_pb2.StepEvent) -> AnswerRejected:
    found = event.answer_rejected
    return AnswerRejected(
        problem=ANSWER_PROBLEM.read(found.problem),
        repair=found.repair,
        explanation=event.content.text,
        call_id=found.call_id,
    )


TURN_FACTS = (
    FactCoder(
        fact=ModelCallStarted,
        field="model_call_started",
        pack=_pack_model_call_started,
        unpack=_unpack_model_call_started,
    ),
    FactCoder(
        fact=ModelReplied,
        field="model_replied",
        pack=_pack_model_replied,
        fill=_fill_model_replied,
        unpack=_unpack_model_replied,
    ),
    FactCoder(
        fact=ModelCallFailed,
        field="model_call_failed",
        pack=_pack_model_call_failed,
        fill=_fill_model_call_failed,
        unpack=_unpack_model_call_failed,
    ),
    FactCoder(
        fact=ToolCallRequested,
        field="tool_call_requested",
        pack=_pack_tool_call_requested,
        fill=_fill_tool_call_requested,
        unpack=_unpack_tool_call_requested,
    ),
    FactCoder(
        fact=ToolCallStarted,
        field="tool_call_started",
        pack=_pack_tool_call_started,
        unpack=_unpack_tool_call_started,
    ),
    FactCoder(
        fact=ToolCallFinished,
        field="tool_call_finished",
        pack=_pack_tool_call_finished,
        fill=_fill_tool_call_finished,
        unpack=_unpack_tool_call_finished,
    ),
    FactCoder(
        fact=AnswerRejected,
        field="answer_rejected",
        pack=_pack_answer_rejected,
        fill=_fill_answer_rejected,
        unpack=_unpack_answer_rejected,
    ),
)
