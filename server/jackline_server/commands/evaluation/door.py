"""The server as a client sees it: starting a run, answering what it asks, looking at it, ending it.

Owns the requests, and turning what comes back into plain values. The only module of the server's that knows
the client library. Every method raises JacklineError; cancelling one stops no run.
"""

import re
from collections.abc import Sequence
from contextlib import aclosing
from datetime import UTC, datetime, timedelta

from google.protobuf.duration_pb2 import Duration

from jackline.v1.control_pb2 import ReceiptStage
from jackline.v1.run_pb2 import (
    Interrupt,
    InterruptKind,
    MessageRole,
    OnQuestion,
    Run,
    RunBounds,
    RunState,
    StopReason,
    ToolCall,
    ToolCallStatus,
    View,
)
from jackline_client import ControlOptions, JacklineClient, RunFilter, StartOptions
from jackline_client.errors import AlreadyDecided, RunTerminal, ScopeMissing
from jackline_server.commands.evaluation.cases import Case, Existing, Given, Stored
from jackline_server.commands.evaluation.event_reading import EventReading
from jackline_server.commands.evaluation.recording import Conversation, Recorded
from jackline_server.commands.evaluation.shapes import AnswerShape, BoundsShape
from jackline_server.commands.evaluation.sight import Call, Sight, Used
from jackline_server.core import json_text
from jackline_server.core.plan import JsonValue
from jackline_server.definitions.parameters import as_json
from jackline_server.runtime.ports.definitions import Source

_TERMINAL = frozenset({"succeeded", "needs_review", "exhausted", "failed", "aborted"})
_LIVING = (
    RunState.RUN_STATE_QUEUED,
    RunState.RUN_STATE_RUNNING,
    RunState.RUN_STATE_PAUSED,
    RunState.RUN_STATE_WAITING,
)
_DATA = re.compile(r"<data>\s*(.*?)\s*</data>", re.DOTALL)
_LONGEST_OPENING = 500
_EFFECTIVE = ControlOptions(
    reason="answered by a case of jackline eval", wait=ReceiptStage.RECEIPT_STAGE_EFFECTIVE
)


class NotEnded(Exception):
    """The run that a case names has not ended."""


class Door:
    """One server. Whoever made the client closes it."""

    def __init__(self, client: JacklineClient) -> None:
        self._client = client

    async def version(self) -> str:
        """The server's version."""
        return (await self._client.get_server_info()).version

    # --- runs ----------------------------------------------------------------------------------

    async def start(self, case: Case, *, labels: dict[str, str], unattended: bool) -> str:
        """Start the run of a case; returns its id. `unattended` says that nobody answers questions."""
        given = json_text.write(case.input_json) if case.has_input else None
        options = _options(case, unattended=unattended)
        options["labels"] = labels
        match case.origin:
            case Stored(workflow=workflow):
                started = await self._client.start_run(workflow, input=given, **options)
            case Given(source=source):
                options["inline_yaml"] = source.yaml
                options["files"] = source.files
                started = await self._client.start_run(input=given, **options)
            case Existing():
                raise AssertionError("a run that there is is not started")
        return started.run.run_id

    async def start_source(self, source: Source, given: JsonValue, *, labels: dict[str, str]) -> str:
        """Start a run of a workflow that is stored nowhere; returns its id."""
        started = await self._client.start_run(
            input=json_text.write(given), inline_yaml=source.yaml, labels=labels
        )
        return started.run.run_id

    async def wait(self, run_id: str) -> None:
        """Return when the run has ended."""
        while not (await self._client.wait_run(run_id)).finished:
            pass

    async def attend(self, run_id: str, answers: Sequence[AnswerShape]) -> str:
        """Answer what the run, and those below it, ask, until it has ended.

        Returns the first question that no answer fits, in words, and waits no longer then; else nothing.
        """
        done: set[tuple[str, str]] = set()
        # What is asked in words is content, which a token may not be allowed to read.
        by_words = any(answer.asks is not None for answer in answers)
        view = View.VIEW_FULL if by_words else View.VIEW_METADATA
        events = self._client.watch(run_id, kinds=("interrupt_raised",), children=True)
        async with aclosing(events) as frames:
            async for frame in frames:
                if not any(event.HasField("interrupt_raised") for event in frame.events):
                    continue
                for one in await self._open_questions(run_id, view):
                    if (one.run_id, one.interrupt_id) in done:
                        continue
                    done.add((one.run_id, one.interrupt_id))
                    answer = next((found for found in answers if _fits(found, one)), None)
                    if answer is None:
                        return _asked(await self._in_words(one))
                    await self._answer(one, answer)
        return ""

    async def _open_questions(self, run_id: str, view: View.ValueType) -> list[Interrupt]:
        found = self._client.list_interrupts(run_id, children=True, view=view)
        async with aclosing(found) as interrupts:
            return [one async for one in interrupts]

    async def _in_words(self, asked: Interrupt) -> Interrupt:
        """The question with what it says, if the token may read that and it is still open."""
        try:
            found = await self._open_questions(asked.run_id, View.VIEW_FULL)
        except ScopeMissing:
            return asked
        return next((one for one in found if one.interrupt_id == asked.interrupt_id), asked)

    async def _answer(self, asked: Interrupt, answer: AnswerShape) -> None:
        try:
            if asked.kind == InterruptKind.INTERRUPT_KIND_APPROVAL:
                await self._decide(asked, answer)
            else:
                text = answer.text or ""
                if answer.value is not None:
                    text = json_text.write(as_json(answer.value))
                await self._client.answer(
                    asked.run_id, asked.interrupt_id, answer.option, text=text, **_EFFECTIVE
                )
        except (AlreadyDecided, RunTerminal):
            return  # somebody was faster, or it ended meanwhile: there is nothing to answer any more

    async def _decide(self, asked: Interrupt, answer: AnswerShape) -> None:
        """Decide about a call by what was just shown of it. An option of no approval is refused there."""
        run_id, interrupt_id, digest = asked.run_id, asked.interrupt_id, asked.arguments_digest
        match answer.option, answer.value:
            case "approve", None:
                await self._client.approve(run_id, interrupt_id, digest, **_EFFECTIVE)
            case "approve" | "edit_and_approve", dict() as value:
                arguments = json_text.write(as_json(value))
                await self._client.edit_and_approve(
                    run_id, interrupt_id, digest, arguments=arguments, **_EFFECTIVE
                )
            case "reject", None:
                await self._client.reject(run_id, interrupt_id, text=answer.text or "", **_EFFECTIVE)
            case option, _:
                await self._client.answer(run_id, interrupt_id, option, **_EFFECTIVE)

    async def abort(self, run_id: str, reason: str) -> None:
        """End the run, and return when that is accepted."""
        await self._client.abort(run_id, reason=reason)

    async def living(self, labels: dict[str, str]) -> list[str]:
        """The runs with these labels that have not ended; those below them end with them."""
        async with aclosing(self._client.list_runs(RunFilter(states=_LIVING, labels=labels))) as runs:
            return [run.run_id async for run in runs if not run.parent_run_id]

    # --- looking -------------------------------------------------------------------------------

    async def sight(self, run_id: str, *, full: bool) -> Sight:
        """What is seen of a run; without `full` neither words nor values. Raises NotEnded."""
        view = View.VIEW_FULL if full else View.VIEW_METADATA
        run = await self._client.get_run(run_id, view=view)
        state = _word(RunState.Name(run.state), "RUN_STATE_")
        if state not in _TERMINAL:
            raise NotEnded(f"run {run_id} is {state}: it has to have ended")
        calls = await self._client.list_tool_calls(run_id, view=view)
        return Sight(
            run_id=run_id,
            workflow=run.workflow,
            state=state,
            exit=run.signal,
            stop_reason=_word(StopReason.Name(run.stop_reason), "STOP_REASON_"),
            error=run.outcome.error,
            steps={step.step_id: step.signal for step in run.steps},
            input=_value(run.input_json),
            result=_value(run.outcome.result_json),
            calls=tuple(_call(one) for one in calls if one.attempts or one.reused_from),
            used=_used(run),
        )

    async def recorded(self, run_id: str) -> Recorded:
        """All of a run and of those below it that a recording needs. Raises NotEnded."""
        seen = await self.sight(run_id, full=True)
        top = await self._client.get_run(run_id)
        reading = EventReading()
        pending = [top]
        while pending:
            run = pending.pop(0)
            async with aclosing(self._client.watch(run.run_id, view=View.VIEW_FULL)) as frames:
                async for frame in frames:
                    for event in frame.events:
                        reading.take(event)
            pending += [await self._client.get_run(child.run_id) for child in run.children]
        return Recorded(
            seen=seen,
            is_stored=await self.is_stored(seen.workflow),
            replies=tuple(reading.replies),
            answers=tuple(reading.answers),
            conversations=tuple([await self._conversation(*key) for key in reading.conversations]),
            side_calls=reading.side_calls,
            parent=top.parent_run_id,
            has_thread=bool(top.thread_id),
        )

    async def _conversation(self, run_id: str, step_id: str, visit: int) -> Conversation:
        messages = await self._client.list_run_messages(run_id, step_id=step_id, visit=visit)

        def first(role: MessageRole.ValueType) -> str:
            return next((one.text for one in messages if one.role == role), "")

        return Conversation(
            name=step_id,
            system=first(MessageRole.MESSAGE_ROLE_SYSTEM),
            opening=_given(first(MessageRole.MESSAGE_ROLE_USER)),
        )

    async def is_stored(self, workflow: str) -> bool:
        """True if the server has a workflow of that name."""
        async with aclosing(self._client.list_workflows()) as revisions:
            return any([one.name == workflow async for one in revisions])


def _options(case: Case, *, unattended: bool) -> StartOptions:
    options = StartOptions(
        on_question=OnQuestion.ON_QUESTION_REVIEW if unattended else OnQuestion.ON_QUESTION_WAIT
    )
    if case.bounds is not None:
        options["bounds"] = _bounds(case.bounds)
    if case.deadline_ms is not None:
        options["deadline"] = datetime.now(UTC) + timedelta(milliseconds=case.deadline_ms)
    return options


def _bounds(given: BoundsShape) -> RunBounds:
    bounds = RunBounds(
        token_budget=given.token_budget,
        cost_budget_micros=given.cost_budget_usd,
        steps=given.steps,
        events=given.events,
        child_depth=given.child_depth,
    )
    if given.run_timeout is not None:
        bounds.run_timeout.CopyFrom(
            Duration(seconds=given.run_timeout // 1000, nanos=given.run_timeout % 1000 * 1_000_000)
        )
    return bounds


def _fits(answer: AnswerShape, asked: Interrupt) -> bool:
    """True if all that the answer says of its question holds of this one."""
    return (
        (answer.step is None or answer.step == asked.step_id)
        and (answer.tool is None or answer.tool == asked.tool)
        and (answer.asks is None or answer.asks.casefold() in asked.question.casefold())
    )


def _asked(asked: Interrupt) -> str:
    """A question in words."""
    what = asked.question or asked.limit_leaf or asked.tool or "something"
    tool = f", tool {asked.tool}" if asked.tool else ""
    return f"{what} (step {asked.step_id}{tool}; options: {', '.join(asked.options)})"


def _call(call: ToolCall) -> Call:
    return Call(
        tool=call.tool,
        status=_word(ToolCallStatus.Name(call.status), "TOOL_CALL_STATUS_"),
        arguments=_value(call.arguments_json),
    )


def _used(run: Run) -> Used:
    active = run.active_time
    return Used(
        tokens=run.ledger.tokens,
        cost_micros=run.ledger.cost_micros,
        iterations=run.ledger.iterations,
        tool_calls=run.ledger.tool_calls,
        active_ms=active.seconds * 1_000 + active.nanos // 1_000_000,
    )


def _given(opening: str) -> str:
    """The begin of what a step was given, as it stands in its first message."""
    found = _DATA.search(opening)
    return (found[1] if found else opening)[:_LONGEST_OPENING]


def _value(text: bytes) -> JsonValue:
    """A value of the wire; None where there is none. One that is no JSON is its text."""
    if not text:
        return None
    try:
        return json_text.parse(text)
    except json_text.JsonError:
        return text.decode(errors="replace")


def _word(name: str, prefix: str) -> str:
    return name.removeprefix(prefix).lower()
