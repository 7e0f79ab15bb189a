"""Long events of a provider: what would keep every other run waiting is known before it is read."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackline_server.core.facts import AttemptLimit, FailureClass
from jackline_server.egress.client import GuardedClients
from jackline_server.models.litellm_adapter import LiteLLMModels
from jackline_server.models.openai_adapter import OpenAIModels
from jackline_server.models.profile import ModelProfile
from jackline_server.models.router import ModelRouter
from jackline_server.models.wire_caps import MAX_LINE_BYTES, MAX_MARKS
from jackline_server.models.wire_density import Density, marks_of
from jackline_server.runtime.ports.models import ModelRequest
from jackline_server.runtime.ports.secrets import Secret
from tests.models.examples import failure_of, model_plan, reply_of, request
from tests.support import openai_endpoint as endpoint
from tests.support.openai_endpoint import DONE, Send, Wire, chunk, sse

pytestmark = [
    pytest.mark.timeout(90),
    pytest.mark.filterwarnings("ignore:Items? .* on TypedDict class"),
    pytest.mark.filterwarnings("ignore:Accessing the 'model_.*' attribute"),
]
both = pytest.mark.parametrize("adapter", ["openai", "litellm"])

ANY_JSON = st.recursive(
    st.none() | st.integers() | st.text(alphabet='a"\\,:[]{}\n\u20ac', max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)


def plain_marks(value: object) -> int:
    match value:
        case dict():
            return 1 + max(len(value) - 1, 0) + len(value) + sum(map(plain_marks, value.values()))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] - any JSON
        case list():
            return 1 + max(len(value) - 1, 0) + sum(map(plain_marks, value))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] - any JSON
        case _:
            return 0


@given(ANY_JSON, st.lists(st.integers(min_value=1, max_value=200), max_size=6), st.booleans())
def test_marks_are_those_outside_of_texts_wherever_the_document_is_cut(
    value: object, cuts: list[int], is_plain: bool
) -> None:
    data = json.dumps(value, ensure_ascii=is_plain).encode()
    density, places = Density(), sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    for start, end in pairwise(places):
        density.add(data[start:end])
    assert density.marks == marks_of(data) == plain_marks(value)


@asynccontextmanager
async def against(adapter: str, answer: Wire) -> AsyncGenerator[tuple[ModelRouter, ModelRequest]]:
    """An adapter, and a request to an endpoint that has one answer."""
    async with endpoint.serve(lambda _: answer) as server:
        profile = ModelProfile(api_key=Secret("sk-planted-0123456789"), base_url=server.base_url)
        made = (
            OpenAIModels(profiles={"p": profile}, pools=GuardedClients(), environ={})
            if adapter == "openai"
            else LiteLLMModels({"p": profile})
        )
        asked = request(plan=model_plan(adapter=adapter), max_output_tokens=1_000_000)
        try:
            yield ModelRouter(adapters={adapter: made}, profiles={"p": profile}), asked
        finally:
            await made.close()


DENSE = b'data: {"choices": [' + b"[]," * (MAX_LINE_BYTES // 4) + b"[]]}\n\n"
LONG = 'long, [very] {long}: \u20ac"\\' * 40_000
"""Over a megabyte on the wire, all of it one text."""


@both
async def test_an_event_of_too_many_values_is_given_up_before_it_is_read(adapter: str) -> None:
    async with against(adapter, Wire(pieces=[Send(DENSE), DONE])) as (models, asked):
        failure = await failure_of(models, asked)
    assert (failure.failure, failure.limit) == (FailureClass.MALFORMED, AttemptLimit.BYTES)
    assert marks_of(DENSE) > MAX_MARKS


@both
async def test_a_long_text_in_one_event_is_read(adapter: str) -> None:
    answer = Wire(pieces=[sse(chunk({"content": LONG})), sse(chunk(finish="stop")), DONE])
    async with against(adapter, answer) as (models, asked):
        assert (await reply_of(models, asked)).text == LONG


EVENTS_OF_NOTHING = b"data:{}\n\n" * 15_000
"""Nothing is handed on meanwhile, so that nobody else slows the reading down."""


@dataclass
class Turns:
    """The longest that one turn of the event loop took, in seconds of this thread."""

    longest_s: float = 0.0

    @asynccontextmanager
    async def measured(self) -> AsyncGenerator[None]:
        loop, seen, is_over = asyncio.get_running_loop(), time.thread_time(), False

        def look() -> None:
            nonlocal seen
            now = time.thread_time()
            self.longest_s, seen = max(self.longest_s, now - seen), now
            if not is_over:
                loop.call_soon(look)

        look()
        try:
            yield
        finally:
            is_over = True


async def test_no_event_holds_up_the_loop() -> None:
    """The longest turn while the densest event comes, that is given up."""
    turns = Turns()
    async with against("openai", Wire(pieces=[Send(DENSE), DONE])) as (models, asked), turns.measured():
        await failure_of(models, asked)
    assert turns.longest_s < 0.2


@both
async def test_many_events_that_say_nothing_leave_others_their_turn(adapter: str) -> None:
    last = [sse(chunk({"content": "said"})), sse(chunk(finish="stop")), DONE]
    async with against(adapter, Wire(pieces=last)) as (models, asked):
        await reply_of(models, asked)  # imports, once
    turns = Turns()
    answer = Wire(pieces=[Send(EVENTS_OF_NOTHING), *last])
    async with against(adapter, answer) as (models, asked), turns.measured():
        assert (await reply_of(models, asked)).text == "said"
    assert turns.longest_s < {"openai": 0.03, "litellm": 0.2}[adapter]
