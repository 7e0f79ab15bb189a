"""Who is told what, through the real loop: messages that commits owe."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from jackline.v1 import run_pb2
from jackline_server.core.commands import Abort
from jackline_server.core.facts import AbortMode, FailureClass, InterruptKind, Phase, StopReason
from jackline_server.core.plan import END, HumanAction
from jackline_server.runtime.ports.models import ModelFailure, ModelRequest
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from jackline_server.runtime.ports.webhooks import DeliveryQuery, WebhookEndpoint, WebhookEvent
from jackline_server.storage.memory.store import memory_store
from jackline_server.testing import plans
from jackline_server.testing.doubles import FakeModels
from jackline_server.testing.harness import Process, World, process
from jackline_server.webhooks.messages import MOST_BYTES
from jackline_server.webhooks.outbox import EndpointOutbox, delivery_id
from tests.runtime.families import PARENT, children_of, put_all, scene, sealed
from tests.runtime.test_questions import FORM, Asks, answer, asked, no_model
from tests.webhooks.endpoints import endpoint

ASK = plans.tool(
    "ask",
    kind="human",
    input={"name": "/input/name"},
    action=HumanAction(question="How long does {{ name }} stay?", schema_json=FORM),
    routes={"*": END},
)


class Nudges:
    """Counts what the outbox says."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


def world(*endpoints: WebhookEndpoint, nudges: Nudges | None = None) -> World:
    return World(
        store=memory_store(),
        models=FakeModels(answering=no_model),
        toolbox=Asks(),
        plans={"plan": sealed(plans.plan_of(ASK))},
        outbox=EndpointOutbox(endpoints, on_owed=nudges or Nudges()),
    )


async def told(world: World, name: str) -> list[dict[str, Any]]:
    """The messages that an endpoint is owed, in the order of their facts."""
    found = await world.store.deliveries.claim(name, now_unix_ms=2**62, until_unix_ms=2**62, limit=100)
    return [json.loads(due.body) for due in found.due]


async def through(jackline: Process, text: str = '{"nights": 2}', name: str = "Ann") -> str:
    """A run that asks, is answered, and ends."""
    run_id = await jackline.start(name=name)
    question = await asked(jackline, run_id)
    await jackline.control(run_id, answer(question, text))
    await jackline.follow(run_id)
    return run_id


async def test_a_question_its_answer_and_the_end_are_told_in_that_order_with_ids_of_their_own() -> None:
    nudges = Nudges()
    here = world(endpoint(), nudges=nudges)
    async with process(here) as jackline, asyncio.timeout(20):
        run_id = await through(jackline)
        log = await jackline.log(run_id)

    raised, resolved, finished = await told(here, "ops")
    assert [one["type"] for one in (raised, resolved, finished)] == [
        "interrupt.raised",
        "interrupt.resolved",
        "run.finished",
    ]
    assert {one["data"]["run_id"] for one in (raised, resolved, finished)} == {run_id}
    assert finished["data"]["sequence"] == len(log)
    assert (raised["data"]["state"], finished["data"]["state"]) == ("waiting", "succeeded")
    interrupt = raised["data"]["interrupt"]
    assert (interrupt["kind"], interrupt["tool"]) == ("question", "ask")
    assert "accept" in interrupt["options"]
    assert resolved["data"]["interrupt"] == {
        "interrupt_id": interrupt["interrupt_id"],
        "kind": "question",
        "call_id": interrupt["call_id"],
        "tool": "ask",
        "option": "accept",
        "principal": "tester",
        "expired": False,
    }
    assert (finished["data"]["signal"], finished["data"]["stop_reason"]) == ("default", "default")
    assert nudges.count >= 2
    rows = await here.store.deliveries.page(DeliveryQuery(tenant=DEFAULT_TENANT, limit=9))
    assert [(row.delivery_id, row.sequence) for row in reversed(rows)] == [
        (delivery_id(run_id, one["data"]["sequence"], "ops"), one["data"]["sequence"])
        for one in (raised, resolved, finished)
    ]


async def test_a_question_that_the_end_of_its_run_closes_is_closed_by_the_word_of_that_end() -> None:
    here = world(endpoint())
    async with process(here) as jackline, asyncio.timeout(20):
        run_id = await jackline.start(name="Ann")
        await asked(jackline, run_id)
        await jackline.control(run_id, Abort(mode=AbortMode.NOW, skip_routes=False))
        await jackline.follow(run_id)

    raised, finished = await told(here, "ops")
    assert (raised["type"], finished["type"]) == ("interrupt.raised", "run.finished")
    assert finished["data"]["run_id"] == raised["data"]["run_id"] == run_id
    assert finished["data"]["sequence"] > raised["data"]["sequence"]


async def test_only_who_wants_content_is_told_content() -> None:
    here = world(endpoint("plain"), endpoint("all", full=True))
    async with process(here) as jackline, asyncio.timeout(20):
        await through(jackline)

    messages = await told(here, "plain")
    assert len(messages) == 3
    plain = json.dumps(messages)
    assert "nights" not in plain
    assert "stay" not in plain
    assert "Ann" not in plain
    raised, resolved, finished = (one["data"] for one in await told(here, "all"))
    assert raised["interrupt"]["question"] == "How long does Ann stay?"
    assert raised["interrupt"]["schema"]["required"] == ["nights"]
    assert raised["interrupt"]["arguments"] == {"name": "Ann"}
    assert resolved["interrupt"]["text"] == '{"nights": 2}'
    assert finished["outcome"]["result"] == {"nights": 2}
    assert finished["outcome"]["error"] == ""


async def test_a_message_that_would_be_too_long_goes_without_its_content() -> None:
    here = world(endpoint(full=True))
    async with process(here) as jackline, asyncio.timeout(20):
        await through(jackline, name="A" * MOST_BYTES)

    raised = (await told(here, "ops"))[0]
    assert raised["data"]["content_omitted"] is True
    assert "question" not in raised["data"]["interrupt"]
    assert len(json.dumps(raised)) < 2_000


@pytest.mark.parametrize(
    ("more", "types"),
    [
        ({"events": frozenset({WebhookEvent.RUN_FINISHED})}, ["run.finished"]),
        ({"events": frozenset({WebhookEvent.INTERRUPT_RAISED})}, ["interrupt.raised"]),
        ({"workflows": frozenset({"another"})}, []),
        ({"labels": {"team": "a"}}, []),
        ({"states": frozenset({Phase.FAILED})}, ["interrupt.raised", "interrupt.resolved"]),
        ({"signals": frozenset({"error"})}, ["interrupt.raised", "interrupt.resolved"]),
        (
            {"states": frozenset({Phase.SUCCEEDED}), "signals": frozenset({"default"})},
            ["interrupt.raised", "interrupt.resolved", "run.finished"],
        ),
    ],
)
async def test_an_endpoint_is_told_what_its_filters_let_through(
    more: Mapping[str, Any], types: list[str]
) -> None:
    here = world(endpoint(**more))
    async with process(here) as jackline, asyncio.timeout(20):
        await through(jackline)

    assert [one["type"] for one in await told(here, "ops")] == types


async def test_of_a_family_the_top_alone_is_told_the_end_of_unless_children_are_wanted() -> None:
    outbox = EndpointOutbox((endpoint("top"), endpoint("all", children=True)), on_owed=Nudges())
    here = replace(scene().world, outbox=outbox)
    async with process(here) as jackline, asyncio.timeout(20):
        await put_all(jackline)
        run_id = await jackline.start(PARENT)
        (child,) = children_of(await jackline.follow(run_id))

    assert [one["data"]["run_id"] for one in await told(here, "top")] == [run_id]
    ends = {one["data"]["run_id"]: one["data"] for one in await told(here, "all")}
    assert set(ends) == {run_id, child}
    assert (ends[child]["parent_run_id"], ends[child]["root_run_id"]) == (run_id, run_id)
    assert "parent_run_id" not in ends[run_id]


async def test_what_is_told_is_said_in_the_words_of_the_contract() -> None:
    states = {f"RUN_STATE_{phase.value.upper()}" for phase in Phase}
    reasons = {f"STOP_REASON_{reason.value.upper()}" for reason in StopReason}
    kinds = {f"INTERRUPT_KIND_{kind.value.upper()}" for kind in InterruptKind}
    assert states <= set(run_pb2.RunState.keys())
    assert reasons <= set(run_pb2.StopReason.keys())
    assert kinds <= set(run_pb2.InterruptKind.keys())
    here = world(endpoint(full=True))
    async with process(here) as jackline, asyncio.timeout(20):
        await through(jackline)
    raised, resolved, finished = (one["data"] for one in await told(here, "ops"))
    run, interrupt = run_pb2.Run.DESCRIPTOR, run_pb2.Interrupt.DESCRIPTOR
    ours = {"sequence", "interrupt", "active_ms", "stop_reason"}
    for data in (raised, resolved, finished):
        assert set(data) - ours <= set(run.fields_by_name) | {"cost_micros"}
    named = {name.removesuffix("_json") for name in interrupt.fields_by_name}
    assert set(raised["interrupt"]) <= named


async def test_a_failed_run_says_why_and_only_to_whom_wants_content_in_words() -> None:
    def broken(_: ModelRequest) -> ModelFailure:
        return ModelFailure(FailureClass.AUTHENTICATION, "the key is wrong")

    outbox = EndpointOutbox((endpoint("plain"), endpoint("all", full=True)), on_owed=Nudges())
    here = replace(scene(answering=broken).world, outbox=outbox)
    async with process(here) as jackline, asyncio.timeout(20):
        await jackline.follow(await jackline.start(PARENT))

    (plain,), (full,) = await told(here, "plain"), await told(here, "all")
    assert (plain["data"]["state"], plain["data"]["stop_reason"]) == ("failed", "model_error")
    assert "error" not in plain["data"]["outcome"]
    assert full["data"]["outcome"]["error"]
