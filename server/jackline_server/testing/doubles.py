"""Strict doubles of the runtime's ports.

Each is given what it will be asked for. An unexpected call fails, and `assert_used_up` fails on what was
never asked for.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from dataclasses import dataclass, field

from jackline_server.core.facts import FinishReason, Usage
from jackline_server.core.plan import Plan
from jackline_server.runtime.ports.definitions import Compilation, Signature, Source, WorstCase
from jackline_server.runtime.ports.models import (
    EndChunk,
    ModelChunk,
    ModelFailure,
    ModelRequest,
    ReasoningChunk,
    TextChunk,
    ToolCallChunk,
)
from jackline_server.runtime.ports.tools import Invocation, ToolEnding, ToolResult


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedReply:
    """One reply of a model: text, or calls as (id, name, arguments), after a wait in milliseconds.

    `reasoning` goes back in `reasoning_content`, and `blocks_json` as it is. With `breaks_off` the stream
    fails behind its text.
    """

    text: str = ""
    reasoning: str = ""
    blocks_json: str = ""
    breaks_off: ModelFailure | None = None
    calls: tuple[tuple[str, str, str], ...] = ()
    usage: Usage | None = Usage(prompt_tokens=10, completion_tokens=5)
    wait_ms: int = 0

    def chunks(self) -> list[ModelChunk]:
        """The reply as an adapter would yield it."""
        chunks: list[ModelChunk] = [ReasoningChunk(self.reasoning)] if self.reasoning else []
        if self.text:
            chunks.append(TextChunk(self.text))
        chunks.extend(
            ToolCallChunk(index, call_id, name, arguments)
            for index, (call_id, name, arguments) in enumerate(self.calls)
        )
        finish = FinishReason.TOOL_CALLS if self.calls else FinishReason.STOP
        field = "reasoning_content" if self.reasoning and not self.blocks_json else ""
        return [*chunks, EndChunk(finish, self.usage, field, self.blocks_json)]

    def played(self) -> Iterator[ModelChunk]:
        """The same, up to where it breaks off. Raises the failure it breaks off with."""
        for chunk in self.chunks():
            if self.breaks_off is not None and isinstance(chunk, EndChunk):
                raise self.breaks_off
            yield chunk


Answering = Callable[[ModelRequest], ScriptedReply | Exception]


@dataclass(slots=True, kw_only=True)
class FakeModels:
    """A model that answers each request by a function of it. Keeps what it was asked."""

    answering: Answering
    requests: list[ModelRequest] = field(default_factory=list[ModelRequest])

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
        """See Models."""
        self.requests.append(request)
        reply = self.answering(request)
        if isinstance(reply, Exception):
            raise reply
        if reply.wait_ms:
            await asyncio.sleep(reply.wait_ms / 1000)
        for chunk in reply.played():
            yield chunk


Tool = Callable[[Invocation], ToolResult]


@dataclass(slots=True, kw_only=True)
class FakeTools:
    """Tools by step name, each a function of its invocation. Keeps every call: the tools' own ledger.

    `called` is set at the first call.
    """

    tools: Mapping[str, Tool]
    wait_ms: Callable[[Invocation], int] = lambda _: 0
    ledger: list[Invocation] = field(default_factory=list[Invocation])
    finished: list[Invocation] = field(default_factory=list[Invocation])
    called: asyncio.Event = field(default_factory=asyncio.Event)

    async def call(self, invocation: Invocation) -> ToolResult:
        """See Toolbox. A tool that was not declared is an AssertionError."""
        tool = self.tools.get(invocation.step.step_id)
        if tool is None:
            raise AssertionError(f"unexpected call of {invocation.step.step_id}")
        self.ledger.append(invocation)
        self.called.set()
        wait = self.wait_ms(invocation)
        if wait:
            await asyncio.sleep(wait / 1000)
        result = tool(invocation)
        self.finished.append(invocation)
        return result


def returns(output_json: str) -> Tool:
    """A tool that completes with that output."""
    return lambda _: ToolResult(ending=ToolEnding.COMPLETED, output_json=output_json)


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedCompiler:
    """A compiler that knows some plans by the name that stands in the source's place."""

    plans: Mapping[str, Plan]

    def compile(self, source: Source) -> Compilation:
        """See Compiler: the YAML is the plan's name. An unknown name is an AssertionError."""
        plan = self.plans.get(source.yaml)
        if plan is None:
            raise AssertionError(f"unexpected workflow {source.yaml!r}")
        nothing = WorstCase(
            model_requests=None, tool_calls=None, tokens=None, cost_micros=None, active_ms=None
        )
        return Compilation(name=plan.name, revision=plan.revision, plan=plan, findings=(), worst_case=nothing)

    def signature(self, source: Source) -> Signature | None:
        """See Compiler: nobody asks, since no plan of it names a workflow that it runs."""
        raise AssertionError(f"unexpected question about {source.yaml!r}")
