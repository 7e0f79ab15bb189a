"""The model endpoint, tools and functions of a simulated world, outside of every process, with their books.

Owns what they answer and how badly: waits, failures, uncertain endings, hangs, and code that ignores being
cancelled. An adapter keeps its timeouts, as the ports demand.
"""

import asyncio
import hashlib
import random
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field

from jackline_server.core import json_text
from jackline_server.core.facts import ConsultKind, FailureClass, FinishReason, ToolAsk, Usage
from jackline_server.core.gate_plans import Point
from jackline_server.core.messages import UserMessage
from jackline_server.core.plan import ASK_PERSON, FINISH, READ_RESULT, Effect, HumanAction, ToolStep
from jackline_server.runtime.ports.consultants import Consultation, ConsultReply
from jackline_server.runtime.ports.models import (
    EndChunk,
    ModelChunk,
    ModelFailure,
    ModelRequest,
    TextChunk,
    ToolCallChunk,
)
from jackline_server.runtime.ports.tools import Invocation, ToolEnding, ToolResult
from jackline_server.testing.simulation.approving import PAY, payment
from jackline_server.testing.simulation.asking import ASKING, NAMED, question_arguments
from jackline_server.testing.simulation.families import STARTING, WISHES, child_arguments, mark_in
from jackline_server.testing.simulation.weather import Weather
from jackline_server.testing.validators.history import ToolEntry
from jackline_server.tools import human

_FAILURES = (
    FailureClass.RATE_LIMITED,
    FailureClass.UNAVAILABLE,
    FailureClass.CONNECTION,
    FailureClass.MALFORMED,
    FailureClass.BAD_REQUEST,
    FailureClass.CONTEXT_OVERFLOW,
)


_SIGNED = '{"thinking_blocks":[{"type":"thinking","thinking":"Hm.","signature":"c2lnbmVk"}]}'
_DOWN = 0.15
"""How much of the time a model can't be reached."""

_ANSWER = '{"outcome":"done","result":1}'
_VERDICTS = (
    '{"score": 1, "unsupported": []}',
    '{"score": 0.2, "unsupported": ["that it is done"]}',
    '{"score": 0.1, "unsupported": ["that it is done"]}',
    "It seems fine.",
)
_WORDS = ('{"passed": true}', '{"passed": true, "reason": "fine"}', '{"passed": false}', "It seems fine.")


_IN_TEXT = 0.15
_READ_ON = 0.5
_INSISTS = 0.15
_LONG = 0.5
_ASKS = 0.08
_ASKS_BEFORE_A_CHANGE = 0.25
_ASKS_AGAIN = 0.2
_WANTS_DATA = 0.5
_LINES = "".join(f"line {number}: the berth is free\n" for number in range(30))
"""A result as if it were too long for the log: of what is kept of it there, the middle is missing."""


@dataclass(slots=True, kw_only=True)
class Books:
    """What the endpoint and the tools noted: hits as (mark, time), and the tools' entries."""

    now_ms: Callable[[], int]
    hits: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    tools: list[ToolEntry] = field(default_factory=list[ToolEntry])


@dataclass(slots=True, kw_only=True)
class SimulatedModels:
    """A model that does as it likes. Implements `ports.Models`."""

    weather: Weather
    books: Books

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
        """One attempt: noted by the endpoint, then whatever the dice say."""
        weather = self.weather
        self.books.hits.append((_mark(request), self.books.now_ms()))
        if not await _took(weather, timeout_ms=request.total_ms):
            raise ModelFailure(FailureClass.TIMEOUT, "no reply in time")
        if _is_down(request.plan.profile, self.books.now_ms()):
            raise ModelFailure(FailureClass.UNAVAILABLE, "nobody is there", usage=Usage())
        if weather.happens(0.12):
            raise self._failure()
        if weather.happens(0.01):
            raise RuntimeError("a bug of the adapter")
        for chunk in self._reply(request):
            yield chunk
            if weather.happens(0.1):
                await asyncio.sleep(0.02)

    def _failure(self) -> ModelFailure:
        usage = None if self.weather.happens(0.3) else Usage()
        retry = 200 if self.weather.happens(0.2) else None
        failure = self.weather.chance.choice(_FAILURES)
        return ModelFailure(failure, "it did not work", usage=usage, retry_after_ms=retry)

    def _reply(self, request: ModelRequest) -> list[ModelChunk]:
        weather = self.weather
        chunks: list[ModelChunk] = []
        calls = 0
        again = _insisted_on(request)
        if again:
            call = ToolCallChunk(0, "", again, _sound(again, random.Random(again)))  # noqa: S311 - as above
            return [call, EndChunk(FinishReason.TOOL_CALLS, self._usage(request), "", "")]
        starts = any(tool.ref in STARTING | ASKING | {PAY} for tool in request.tools)
        if request.tools and weather.happens(0.8 if starts else 0.6):
            calls = weather.chance.choice((1, 1, 2, 3))
        own = random.Random(f"{len(self.books.hits)} {_mark(request)}")  # noqa: S311 - of a simulation
        as_text = own.random() < _IN_TEXT
        if _is_of_a_gate(request):
            chunks.append(TextChunk(weather.chance.choice(_WORDS)))
        elif _is_judge(request):
            chunks.append(TextChunk(weather.chance.choice(_VERDICTS)))
        elif not calls and not weather.happens(0.05):
            said = "done" if request.reply_schema is None else _ANSWER
            chunks.append(TextChunk(said if weather.happens(0.8) else "x" * 200))
        chunks += [self._call(request, index, own, as_text=as_text) for index in range(calls)]
        finish = FinishReason.TOOL_CALLS if calls and not as_text else FinishReason.STOP
        return [*chunks, EndChunk(finish, self._usage(request), "", _SIGNED if calls else "")]

    def _call(self, request: ModelRequest, index: int, own: random.Random, *, as_text: bool) -> ModelChunk:
        weather = self.weather
        name = self._name({tool.ref for tool in request.tools}, weather.chance.choice(request.tools).ref, own)
        arguments = _sound(name, own)
        if name in STARTING:
            arguments = child_arguments(_mark(request), len(self.books.hits), index)
        if not weather.happens(0.9):
            arguments = "{broken"
        call_id = f"c{index}" if weather.happens(0.5) else ""
        if as_text:
            return TextChunk(f'<tool_call>{{"name": "{name}", "arguments": {arguments}}}</tool_call>')
        return ToolCallChunk(index, call_id, name, arguments)

    def _name(self, known: set[str], name: str, own: random.Random) -> str:
        """The tool that is called: that one, unless another is called for."""
        if self.weather.happens(0.03):
            name = "made_up"
        if READ_RESULT in known and own.random() < _READ_ON:
            name = READ_RESULT
        for wanted in (STARTING, ASKING, {PAY}):
            found = sorted(wanted & known)
            if found and own.random() < WISHES:
                name = own.choice(found)
        return name

    def _usage(self, request: ModelRequest) -> Usage | None:
        if self.weather.happens(0.1):
            return None
        prompt = self.weather.chance.randrange(20, 120)
        completion = self.weather.chance.randrange(1, max(2, request.max_output_tokens))
        return Usage(prompt_tokens=prompt, completion_tokens=completion)


@dataclass(slots=True, kw_only=True)
class SimulatedTools:
    """Tools that keep a ledger and fail in every way a tool can. Implements `ports.Toolbox`."""

    weather: Weather
    books: Books

    async def call(self, invocation: Invocation) -> ToolResult:
        """One attempt: noted by the tool, then whatever the dice say."""
        self.books.tools.append(_entry(invocation, self.books.now_ms()))
        weather, action = self.weather, invocation.step.action
        if isinstance(action, HumanAction):
            await asyncio.sleep(weather.chance.random() * 0.2)
            return human.asked(action, invocation)
        if not await _took(weather, timeout_ms=invocation.timeout_ms):
            return ToolResult(ending=ToolEnding.UNCERTAIN, error="no answer in time", timed_out=True)
        if weather.happens(0.1):
            return ToolResult(ending=ToolEnding.FAILED, error="it did not work", may_pass=True)
        if weather.happens(0.1):
            return ToolResult(ending=ToolEnding.UNCERTAIN, error="the connection broke", may_pass=True)
        if weather.happens(0.01):
            raise RuntimeError("a bug of the tool")
        ask = _question(invocation)
        if ask is not None:
            return ToolResult(ending=ToolEnding.ASKING, ask=ask)
        if _is_long(invocation):
            return _long_result()
        return ToolResult(ending=ToolEnding.COMPLETED, output_json='{"ok":true}')


@dataclass(slots=True, kw_only=True)
class SimulatedConsultants:
    """Functions, hooks and a policy: they agree, object, fail, or never return. Implements `Consultants`."""

    weather: Weather

    async def ask(self, question: Consultation) -> ConsultReply:
        """One question, whatever the dice say."""
        weather = self.weather
        if not await _took(weather, timeout_ms=question.timeout_ms):
            return ConsultReply(answer=None, error="no answer in time")
        if weather.happens(0.02):
            raise RuntimeError("a bug of the consultant")
        if weather.happens(0.1):
            return ConsultReply(answer=None, error="it did not work")
        match question.kind:
            case ConsultKind.HOOK if question.point in _AFTER_CALLS and weather.happens(0.15):
                return ConsultReply(answer=True, retry=True)
            case ConsultKind.HOOK:
                noted = {"seen": str(question.point)} if weather.happens(0.2) else {}
                return ConsultReply(answer=weather.happens(0.96), reason="not now", metadata=noted)
            case ConsultKind.POLICY:
                return ConsultReply(answer=weather.happens(0.75), reason="not allowed")
            case _:
                return ConsultReply(answer=weather.happens(0.3))


_AFTER_CALLS = (Point.AFTER_MODEL_CALL, Point.AFTER_TOOL_CALL)


def _is_down(profile: str, now_ms: int) -> bool:
    """True in every sixth stretch of four seconds or so, another for each model, by dice of their own."""
    chance = random.Random(f"{profile} at {now_ms // 4_000}")  # noqa: S311 - chance of a simulation
    return chance.random() < _DOWN


async def _took(weather: Weather, *, timeout_ms: int) -> bool:
    """Take a while; False if it took so long that the adapter gave up."""
    match weather.pick(hang=3, stubborn=3, quick=74, slow=20):
        case "hang":
            await asyncio.sleep(timeout_ms / 1000)
            return False
        case "stubborn":
            await _stubborn(weather.chance.random() * 3)
        case "quick":
            await asyncio.sleep(weather.chance.random() * 0.1)
        case _:
            await asyncio.sleep(weather.chance.random() * 1.5)
    return True


async def _stubborn(seconds: float) -> None:
    """Take so long, even if cancelled once on the way."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        await asyncio.sleep(max(until - loop.time(), 0))


def _entry(invocation: Invocation, at_ms: int) -> ToolEntry:
    step: ToolStep = invocation.step
    return ToolEntry(
        run=invocation.run_id,
        tool=step.step_id,
        effect=step.effect.value,
        call_key=invocation.call_key,
        attempt=invocation.attempt,
        at_ms=at_ms,
        given=hashlib.sha256(json_text.write(invocation.values).encode()).hexdigest(),
    )


def _is_of_a_gate(request: ModelRequest) -> bool:
    """True if a guardrail asks."""
    return request.messages[0].text.startswith("You check one thing")


def _is_judge(request: ModelRequest) -> bool:
    """True if an answer is to be judged: such a request shows one."""
    return "# Answer\n" in request.messages[-1].text


def _insisted_on(request: ModelRequest) -> str:
    """The tool that the model of some runs calls over and over, which may not be one that only reads."""
    tools = sorted({tool.ref for tool in request.tools} & {"put", "change"})
    own = random.Random(f"again {_mark(request)}")  # noqa: S311 - of a simulation
    return tools[0] if tools and own.random() < _INSISTS else ""


def _sound(name: str, chance: random.Random) -> str:
    """Arguments that a tool of that name takes."""
    if name == FINISH:
        return _ANSWER
    if name == ASK_PERSON:
        return question_arguments(chance)
    if name == PAY:
        return payment(chance)
    if name != READ_RESULT:
        return "{}"
    where = chance.choice(('"offset": 100', '"line": 20', '"search": "line 7"'))
    return f'{{"result": "result-{chance.choice((1, 1, 1, 2, 3))}", {where}}}'


def _is_long(invocation: Invocation) -> bool:
    """Whether this tool of this run returns much: always the same, as a repeated call has to have."""
    own = random.Random(f"{invocation.run_id} {invocation.step.step_id}")  # noqa: S311 - of a simulation
    return own.random() < _LONG


def _question(invocation: Invocation) -> ToolAsk | None:
    """What this call asks a person, if anything, by dice of its own: once answered it seldom asks again."""
    reply, key = invocation.reply, invocation.call_key
    if reply is not None and reply.state_json != json_text.write(key):
        raise AssertionError("a call was given back what another one asked")
    own = random.Random(f"{key} asks {invocation.attempt if reply else 0}")  # noqa: S311 - of a simulation
    asks = _ASKS if invocation.step.effect is Effect.READ else _ASKS_BEFORE_A_CHANGE
    if own.random() >= (_ASKS_AGAIN if reply else asks):
        return None
    schema = NAMED if own.random() < _WANTS_DATA else ""
    return ToolAsk(text="Really?", schema_json=schema, state_json=json_text.write(key))


def _long_result() -> ToolResult:
    return ToolResult(
        ending=ToolEnding.COMPLETED,
        output_json=json_text.write(_LINES[:300]),
        tail=_LINES[-200:],
        whole=_LINES,
        cut_from_bytes=len(_LINES),
    )


def _mark(request: ModelRequest) -> str:
    """The mark in the input of the run that asks."""
    found = mark_in([message.text for message in request.messages if isinstance(message, UserMessage)])
    if not found:
        raise AssertionError("a prompt without a mark")
    return found
