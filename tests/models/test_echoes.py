"""A provider that sends our key back: nobody sees it, wherever it stands and however it is cut."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackline_server.core.facts import FinishReason
from jackline_server.egress.client import GuardedClients
from jackline_server.models.echoes import MASK, Echoes, secrets_of
from jackline_server.models.litellm_adapter import LiteLLMModels
from jackline_server.models.openai_adapter import OpenAIModels
from jackline_server.models.profile import ModelProfile
from jackline_server.models.router import ModelRouter
from jackline_server.runtime.driving.replies import fold
from jackline_server.runtime.ports.models import (
    EndChunk,
    ModelChunk,
    ReasoningChunk,
    TextChunk,
    ToolCallChunk,
)
from jackline_server.runtime.ports.secrets import Secret
from tests.models.examples import failure_of, model_plan, reply_of, request
from tests.support import openai_endpoint as endpoint
from tests.support.openai_endpoint import DONE, Call, Reply, Wire, chunk, sse

KEY = "aXaXaB-planted-aXaXaC"
HEADER = "Bearer of-a-second-secret"
END = EndChunk(FinishReason.STOP, None)

pytestmark = [
    pytest.mark.timeout(90),
    pytest.mark.filterwarnings("ignore:Items? .* on TypedDict class"),
    pytest.mark.filterwarnings("ignore:Accessing the 'model_.*' attribute"),
]
both = pytest.mark.parametrize("adapter", ["openai", "litellm"])


def passed(chunks: Sequence[ModelChunk], *secrets: str) -> list[ModelChunk]:
    echoes = Echoes(secrets)
    return [out for chunk in chunks for out in echoes.pass_on((chunk,))]


@given(
    st.lists(st.sampled_from([KEY, "aXaXa", "aX", "aXaXaB-", " and ", "B-planted"]), max_size=8),
    st.lists(st.integers(min_value=1, max_value=60), max_size=12),
)
def test_a_text_is_the_same_but_for_its_secrets_wherever_it_is_cut(words: list[str], cuts: list[int]) -> None:
    text = "".join(words)
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [text[start:end] for start, end in pairwise(places)]
    for kind in (TextChunk, ReasoningChunk):
        reply = fold(passed([*map(kind, pieces), END], KEY))
        assert reply.text + reply.reasoning == text.replace(KEY, MASK)
    calls = [ToolCallChunk(index=0, call_id="c", name="t", arguments=piece) for piece in pieces]
    for call in fold(passed([*calls, END], KEY)).calls:
        assert call.arguments.strip() == text.replace(KEY, MASK).strip()


def test_reasoning_that_is_sent_back_holds_no_secret() -> None:
    (end,) = passed([EndChunk(FinishReason.STOP, None, "", json.dumps({"thinking": KEY}))], KEY)
    assert isinstance(end, EndChunk)
    assert json.loads(end.blocks_json) == {"thinking": MASK}


def test_without_secrets_a_reply_passes_as_it_is() -> None:
    chunks = [TextChunk("aXaXaB"), END]
    assert passed(chunks) == chunks


def test_what_is_secret_of_a_profile_is_what_proves_who_we_are() -> None:
    headers = {
        "X-Api-Key": "second-key-0123",
        "Authorization": "Bearer abcdefgh",
        "anthropic-version": "2023-06-01",
    }
    named = ModelProfile(api_key=Secret(KEY), headers={name: Secret(text) for name, text in headers.items()})
    environ = {"SOME_API_KEY": "of-the-environment", "PATH": "/usr/local/bin"}
    assert set(secrets_of(named, environ)) == {KEY, "second-key-0123", "abcdefgh"}
    assert set(secrets_of(ModelProfile(), environ)) == {"of-the-environment"}
    assert secrets_of(ModelProfile(api_key=Secret("short"))) == ()


@asynccontextmanager
async def against(adapter: str, answer: Reply | Wire) -> AsyncGenerator[ModelRouter]:
    async with endpoint.serve(lambda _: answer) as server:
        profile = ModelProfile(
            api_key=Secret(KEY), base_url=server.base_url, headers={"X-Auth": Secret(HEADER)}
        )
        made: OpenAIModels | LiteLLMModels
        if adapter == "openai":
            made = OpenAIModels(profiles={"p": profile}, pools=GuardedClients(), environ={})
        else:
            made = LiteLLMModels({"p": profile})
            await made.load()  # which takes seconds that an attempt does not have
        try:
            yield ModelRouter(adapters={adapter: made}, profiles={"p": profile})
        finally:
            await made.close()


@both
async def test_a_key_in_a_reply_is_masked_before_anybody_has_it(adapter: str) -> None:
    said = f"Your key is {KEY}, and {HEADER.split()[1]} too."
    call = Call(name="lookup_order", arguments=json.dumps({"order_id": KEY}), call_id=KEY)
    async with asyncio.timeout(80), against(adapter, Reply(text=said, calls=[call])) as models:
        reply = await reply_of(models, request(plan=model_plan(adapter=adapter)))
    assert reply.text == f"Your key is {MASK}, and {MASK} too."
    assert [(one.call_id, one.arguments) for one in reply.calls] == [(MASK, f'{{"order_id": "{MASK}"}}')]


ERRORS = {
    "an answer": endpoint.error(400, f"no such thing as {KEY} or of-a-second-secret"),
    "in a stream": Wire(
        pieces=[
            sse(chunk({"content": "half"})),
            sse({"error": {"message": KEY, "code": KEY, "type": "of-a-second-secret"}}),
            DONE,
        ]
    ),
}


@both
@pytest.mark.parametrize("where", ERRORS)
async def test_a_key_in_an_error_is_masked_before_anybody_has_it(adapter: str, where: str) -> None:
    async with asyncio.timeout(80), against(adapter, ERRORS[where]) as models:
        failure = await failure_of(models, request(plan=model_plan(adapter=adapter)))
    assert KEY not in failure.message
    assert "of-a-second-secret" not in failure.message
