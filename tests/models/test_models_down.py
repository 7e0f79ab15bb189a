"""Whole runs whose models fail over real HTTP: fallbacks, asked waits, an outage that ends."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from email.utils import formatdate

import pytest

from jackline_server.codec.proto_codec import ProtoCodec
from jackline_server.core.commands import Abort, Pause, Resume
from jackline_server.core.facts import (
    AbortMode,
    Fact,
    ModelCallFailed,
    ModelCallStarted,
    NoticeCode,
    Noticed,
    Phase,
    RunFinished,
)
from jackline_server.core.plan import OnModelUnavailable, Plan
from jackline_server.egress.client import GuardedClients
from jackline_server.models.openai_adapter import OpenAIModels
from jackline_server.models.places import Places
from jackline_server.models.profile import ModelProfile
from jackline_server.models.router import ModelRouter
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from jackline_server.runtime.use_cases import Stage
from jackline_server.storage.memory.store import memory_store
from jackline_server.testing.doubles import FakeTools
from jackline_server.testing.harness import Process, World, process
from jackline_server.testing.plans import MODEL, agent_plan, model, run_bounds, step_bounds
from tests.support import openai_endpoint as endpoint
from tests.support.openai_endpoint import Behaviour, Cut, Json, Reply, Send, Wire, chunk, sse

pytestmark = pytest.mark.timeout(60)

ANSWER = Reply(text="done")
DOWN = endpoint.error(503, "overloaded")
HALF = Wire(pieces=[sse(chunk({"content": "half"})), Cut()])
GARBAGE = Wire(pieces=[Send(b"<html>busy</html>")], content_type="text/html")


def always(answer: Reply | Wire) -> Behaviour:
    return lambda _: answer


def plan(*, retries: int = 1, wait: bool = False, fallbacks: tuple[str, ...] = ("slow",)) -> Plan:
    made = agent_plan(
        fallbacks=fallbacks,
        on_model_unavailable=OnModelUnavailable.WAIT if wait else OnModelUnavailable.FAIL,
        bounds=step_bounds(model_requests=50, model_timeout_ms=5_000),
    )
    models = {
        name: model(
            profile=name,
            model="openai/test-model",
            adapter="openai",
            retries=retries,
            retry_base_ms=10,
            retry_cap_ms=20,
        )
        for name in (MODEL, *fallbacks)
    }
    return replace(made, models=models, bounds=run_bounds(run_timeout_ms=30_000))


@asynccontextmanager
async def served(made: Plan, **behaviours: Behaviour) -> AsyncGenerator[Process]:
    """A process whose profiles are endpoints that behave so."""
    async with AsyncExitStack() as stack:
        profiles: dict[str, ModelProfile] = {}
        for name, behaviour in behaviours.items():
            server = await stack.enter_async_context(endpoint.serve(behaviour))
            profiles[name] = ModelProfile(base_url=server.base_url)
        adapter = OpenAIModels(profiles=profiles, pools=GuardedClients(), environ={})
        stack.push_async_callback(adapter.close)
        world = World(
            store=memory_store(),
            models=ModelRouter(adapters={"openai": adapter}, profiles=profiles),
            toolbox=FakeTools(tools={}),
            plans={"plan": made},
            places=Places(profiles),
        )
        yield await stack.enter_async_context(process(world))


async def facts_of(jackline: Process) -> list[Fact]:
    async with asyncio.timeout(30):
        return [record.fact for record in await jackline.follow(await jackline.start())]


def asked(facts: list[Fact]) -> list[str]:
    return [fact.model for fact in facts if isinstance(fact, ModelCallStarted)]


def failures(facts: list[Fact]) -> list[ModelCallFailed]:
    return [fact for fact in facts if isinstance(fact, ModelCallFailed)]


def phase(facts: list[Fact]) -> Phase:
    assert isinstance(facts[-1], RunFinished)
    return facts[-1].phase


@pytest.mark.parametrize("answer", [DOWN, HALF, GARBAGE], ids=["503", "cut", "garbage"])
async def test_a_model_that_keeps_failing_is_replaced_by_the_next(answer: Wire) -> None:
    async with served(plan(), fast=always(answer), slow=always(ANSWER)) as jackline:
        facts = await facts_of(jackline)
    assert asked(facts) == ["fast", "fast", "slow"]
    assert [fact.code for fact in facts if isinstance(fact, Noticed)] == [NoticeCode.MODEL_FALLBACK]
    assert phase(facts) is Phase.SUCCEEDED


async def test_a_refused_key_is_not_hidden_by_a_fallback() -> None:
    refused = endpoint.error(401, "no such key")
    async with served(plan(), fast=always(refused), slow=always(ANSWER)) as jackline:
        facts = await facts_of(jackline)
    assert asked(facts) == ["fast"]
    assert phase(facts) is Phase.FAILED


@pytest.mark.parametrize(
    ("header", "least_ms", "most_ms"),
    [
        (lambda: "1", 1_000, 1_000),
        (lambda: "0.25", 250, 250),
        (lambda: formatdate(time.time() + 2, usegmt=True), 1, 2_000),
        (lambda: "-5", 0, 20),
        (lambda: "soon", 0, 20),
        (lambda: formatdate(time.time() - 60, usegmt=True), 0, 20),
    ],
    ids=["seconds", "fraction", "date", "negative", "words", "past"],
)
async def test_what_a_provider_asks_to_wait_is_waited(
    header: Callable[[], str], least_ms: int, most_ms: int
) -> None:
    hits: list[int] = []

    def limited(_: Json) -> Reply | Wire:
        hits.append(1)
        if len(hits) > 1:
            return ANSWER
        return endpoint.error(429, "slow down", headers={"retry-after": header()})

    async with served(plan(fallbacks=()), fast=limited) as jackline:
        facts = await facts_of(jackline)
    (failed,) = failures(facts)
    assert failed.retry_in_ms is not None
    assert least_ms <= failed.retry_in_ms <= most_ms
    assert phase(facts) is Phase.SUCCEEDED


async def test_a_wait_beyond_the_time_of_the_request_goes_to_the_fallback_at_once() -> None:
    limited = endpoint.error(429, "slow down", headers={"retry-after": "1000000000"})
    async with served(plan(), fast=always(limited), slow=always(ANSWER)) as jackline:
        facts = await facts_of(jackline)
    assert asked(facts) == ["fast", "slow"]
    assert [fact.retry_in_ms for fact in failures(facts)] == [None]


async def test_a_run_waits_for_models_that_are_all_down_and_goes_on_when_one_is_up() -> None:
    hits: list[int] = []

    def down_at_first(_: Json) -> Reply | Wire:
        hits.append(1)
        return DOWN if len(hits) < 4 else ANSWER

    async with served(plan(wait=True), fast=always(DOWN), slow=down_at_first) as jackline:
        facts = await facts_of(jackline)
    assert asked(facts) == ["fast", "fast", "slow", "slow", "fast", "slow", "fast", "slow"]
    assert [fact.waits for fact in failures(facts)].count(True) == 2
    assert phase(facts) is Phase.SUCCEEDED


@asynccontextmanager
async def waiting(*, until_up: asyncio.Event) -> AsyncGenerator[tuple[Process, str]]:
    """A run that waits for a model that is down, with nothing under way."""
    long = plan(wait=True, retries=0, fallbacks=())
    models = {MODEL: replace(long.models[MODEL], retry_base_ms=60_000)}

    def behave(_: Json) -> Reply | Wire:
        return ANSWER if until_up.is_set() else DOWN

    async with served(replace(long, models=models), fast=behave) as jackline, asyncio.timeout(30):
        run_id = await jackline.start()
        frames = jackline.runtime.runs.watch(DEFAULT_TENANT, run_id, after_sequence=0, deltas=False)
        async for frame in frames:
            seen = [ProtoCodec().decode(event).fact for event in frame.events]
            if any(fact.waits for fact in failures(seen)):
                break
        yield jackline, run_id


async def test_an_abort_ends_the_wait_at_once() -> None:
    async with waiting(until_up=asyncio.Event()) as (jackline, run_id):
        abort = Abort(mode=AbortMode.NOW, skip_routes=False)
        receipt = await jackline.control(run_id, abort, command_id="a", wait=Stage.SETTLED, wait_ms=2_000)
        assert receipt.reached


async def test_a_run_that_waits_for_its_model_can_be_paused_and_go_on() -> None:
    up = asyncio.Event()
    async with waiting(until_up=up) as (jackline, run_id):
        receipt = await jackline.control(run_id, Pause(), command_id="p", wait=Stage.EFFECTIVE, wait_ms=2_000)
        assert receipt.reached
        state = jackline.runtime.scheduler.durable_state(run_id)
        assert state is None or state.phase is Phase.PAUSED
        up.set()
        await jackline.control(run_id, Resume(), command_id="r", wait=Stage.EFFECTIVE, wait_ms=2_000)
        await jackline.control(
            run_id, Abort(mode=AbortMode.NOW, skip_routes=False), command_id="a", wait=Stage.SETTLED
        )


async def test_a_drain_lets_a_run_go_that_waits_for_its_model() -> None:
    async with waiting(until_up=asyncio.Event()) as (jackline, run_id):
        await jackline.runtime.scheduler.drain()
        assert type((await jackline.log(run_id))[-1].fact).__name__ == "RunSuspended"
