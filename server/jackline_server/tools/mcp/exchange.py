"""One attempt at a call, from its request to what comes of it: an answer, or a question to a person.

Owns what an attempt does with the answer to an earlier question, in either generation of the protocol. Does
not own what a failure means for the run (`tool`), nor how a question is told (`asking`).
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from mcp_types import ElicitRequestParams, ElicitResult, InputRequiredResult

from jackline_server.core.facts import ToolAsk, ToolReply
from jackline_server.core.instruments import SchemaValidator
from jackline_server.core.plan import JsonObject
from jackline_server.runtime.pinned_tools import PinnedTool
from jackline_server.runtime.ports.tools import Invocation, ToolEnding, ToolResult
from jackline_server.tools.mcp.answers import result_of
from jackline_server.tools.mcp.asking import (
    Asked,
    NotAnswerable,
    asked_by,
    digest_of,
    held_ask,
    held_token,
    is_to_page,
    kept_asked,
    next_ask,
    page_ask,
)
from jackline_server.tools.mcp.asking import result_of as said
from jackline_server.tools.mcp.calling import tool_call
from jackline_server.tools.mcp.dialogue import Answer, Dialogue, Question
from jackline_server.tools.mcp.failures import CallRefused, PageFirst, SessionGone
from jackline_server.tools.mcp.link import Link
from jackline_server.tools.results import failed

MOST_ROUNDS = 10
"""How often a server may want to be asked again without asking anything itself."""

_PAUSE_S = 0.25
_LONGER_HELD_S = 300.0
_Known = Callable[[ElicitRequestParams], ElicitResult | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """What an attempt needs. `deadline` is of the event loop's clock."""

    link: Link
    tool: PinnedTool
    arguments: JsonObject
    invocation: Invocation
    deadline: float
    schemas: SchemaValidator

    async def run(self) -> ToolResult:
        """Make the attempt.

        Raises:
            ServerDown, CallRefused, CallLost
        """
        try:
            return await self._attempt()
        except NotAnswerable as problem:
            return failed(str(problem))

    async def _attempt(self) -> ToolResult:
        """See `run`. Raises NotAnswerable too: of a question at which the call has ended, or was refused."""
        reply = self.invocation.reply
        try:
            if reply is None:
                return await self._rounds(None)
            if is_to_page(reply):
                return await self._opened(reply)
            asked = kept_asked(reply)
            if asked is None:
                return await self._resumed(reply)
            return _asking(next_ask(asked)) if asked.open is not None else await self._answered(asked)
        except PageFirst as first:
            return _asking(page_ask(first.page))

    async def _opened(self, reply: ToolReply) -> ToolResult:
        """Call anew once a page has been opened, and not at all if it was not."""
        if said(reply).action != "accept":
            return failed(
                "The tool's server wants a page to be opened first, which was declined; nothing was done."
            )
        return await self._rounds(None)

    async def _answered(self, asked: Asked) -> ToolResult:
        """Call again with every answer; anew if the server knows nothing of the first time any more."""
        try:
            return await self._rounds(asked)
        except (SessionGone, PageFirst):
            raise
        except CallRefused:
            return await self._rounds(None, before=asked)

    async def _rounds(
        self, asked: Asked | None, *, before: Asked | None = None, known: _Known = lambda _: None
    ) -> ToolResult:
        """Call until something comes of it: a server may want to be asked again and say no more."""
        for _ in range(MOST_ROUNDS):
            session = await self.link.session()
            call = tool_call(self.tool.name, self.arguments, asked)
            dialogue = session.converse(call, known=known, report=self.invocation.report)
            answer = await dialogue.advance(timeout_s=self._left_s())
            if not isinstance(answer, InputRequiredResult):
                return await self._result(dialogue, answer)
            asked = asked_by(answer).knowing(before)
            if asked.open is not None:
                return _asking(next_ask(asked))
            await asyncio.sleep(min(_PAUSE_S, self._left_s()))
        return failed(f"The tool wanted to be asked again {MOST_ROUNDS} times and did not come to an end.")

    async def _resumed(self, reply: ToolReply) -> ToolResult:
        """Go on with a call that is held open; begun anew if it is not any more and may be."""
        token, digest = held_token(reply)
        dialogue = self.link.held.take(token)
        if dialogue is not None:
            if not dialogue.has_ended:
                dialogue.told.report = self.invocation.report
                dialogue.reply(said(reply))
                return await self._result(dialogue, await dialogue.advance(timeout_s=self._left_s()))
            await dialogue.end()  # its server died while a person was asked
        if not self.invocation.step.effect.repeatable:
            message = "The call was cut off while a person was asked; what it did before is not known."
            return failed(message, uncertain=True)
        return await self._rounds(
            None, known=lambda params: said(reply) if digest_of(params) == digest else None
        )

    async def _result(self, dialogue: Dialogue, answer: Answer | Question) -> ToolResult:
        if isinstance(answer, Question):
            return await self._held(dialogue, answer)
        if isinstance(answer, InputRequiredResult):
            return _asking(next_ask(asked_by(answer)))
        # A long answer takes a while to read, which must not hold up the event loop.
        repeatable = self.invocation.step.effect.repeatable
        return await asyncio.to_thread(result_of, answer, self.tool, self.schemas, repeatable=repeatable)

    async def _held(self, dialogue: Dialogue, question: Question) -> ToolResult:
        """Hold the call open until a person has answered."""
        dialogue.told.report = None  # this attempt is over
        held = self.link.held
        if held.is_full:
            await dialogue.end()
            repeatable = self.invocation.step.effect.repeatable
            return failed("Too many calls wait for people; this one was given up.", uncertain=not repeatable)
        token = held.hold(
            dialogue,
            run_id=self.invocation.run_id,
            most_s=self.invocation.step.unknown_expiry_ms / 1000 + _LONGER_HELD_S,
        )
        try:
            return _asking(held_ask(question.params, token))
        except NotAnswerable as problem:
            held.take(token)
            await dialogue.end()
            return failed(str(problem), uncertain=not self.invocation.step.effect.repeatable)

    def _left_s(self) -> float:
        return max(self.deadline - asyncio.get_running_loop().time(), 0.001)


def _asking(ask: ToolAsk) -> ToolResult:
    return ToolResult(ending=ToolEnding.ASKING, ask=ask)
