"""A tool that asks a person: its call ends with the question, and goes on with the answer."""

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from jackline_server.core import json_text
from jackline_server.core.facts import ToolAsk, ToolReply
from jackline_server.core.plan import Effect
from jackline_server.runtime.ports.tools import ToolEnding, ToolResult
from tests.tools.mcp.remote_server import until
from tests.tools.mcp.scene import Scene, connection, hostile, process, reached

COMPLETED, FAILED, UNCERTAIN = ToolEnding.COMPLETED, ToolEnding.FAILED, ToolEnding.UNCERTAIN
ASKING_SERVER = Path(__file__).with_name("asking_server.py")
BOTH = pytest.mark.parametrize("effect", [Effect.READ, Effect.WRITE])


@asynccontextmanager
async def asking(folder: Path) -> AsyncGenerator[tuple[Scene, Path]]:
    """The server of the newer generation, and its ledger."""
    ledger = folder / "did.txt"
    async with reached(connection(process(sys.executable, str(ASKING_SERVER), str(ledger))), folder) as scene:
        yield scene, ledger


def asked(result: ToolResult) -> ToolAsk:
    assert result.ending is ToolEnding.ASKING, result
    assert result.ask is not None
    return result.ask


def reply(ask: ToolAsk, option: str, text: str = "") -> ToolReply:
    return ToolReply(option=option, text=text, state_json=ask.state_json)


@BOTH
async def test_a_call_that_ended_with_a_question_is_made_again_with_the_answer(
    tmp_path: Path, effect: Effect
) -> None:
    async with asking(tmp_path) as (scene, ledger):
        ask = asked(await scene.call("book", {"room": "7"}, effect=effect))
        assert "Who stays in room 7?" in ask.text
        assert json_text.parse_object(ask.schema_json)["required"] == ["name", "nights"]
        said = reply(ask, "accept", '{"name": "Ann", "nights": 2}')
        done = await scene.call("book", {"room": "7"}, effect=effect, reply=said)
        assert done.ending is COMPLETED
        assert "Ann stays 2 nights" in (done.output_json or "")
        assert ledger.read_text().splitlines()[-1] == "books 7 for Ann"


async def test_the_answer_to_a_call_that_ended_reaches_a_server_that_was_started_since(
    tmp_path: Path,
) -> None:
    async with asking(tmp_path) as (scene, _):
        ask = asked(await scene.call("book", {"room": "7"}, effect=Effect.WRITE))
    async with asking(tmp_path) as (scene, ledger):
        said = reply(ask, "accept", '{"name": "Ann", "nights": 2}')
        done = await scene.call("book", {"room": "7"}, effect=Effect.WRITE, reply=said)
        assert done.ending is COMPLETED
        assert ledger.read_text().count("books 7 for Ann") == 1


@BOTH
@pytest.mark.parametrize(
    ("option", "text", "heard"),
    [
        ("accept", '{"name": "Ann"}', {"action": "accept", "content": {"name": "Ann"}}),
        ("decline", "no", {"action": "decline"}),
        ("cancel", "", {"action": "cancel"}),
    ],
)
async def test_a_call_that_an_older_server_holds_open_goes_on_with_the_answer(
    tmp_path: Path, effect: Effect, option: str, text: str, heard: dict[str, object]
) -> None:
    async with hostile(tmp_path, "plain") as scene:
        ask = asked(await scene.call("asking", effect=effect))
        assert "What is it called?" in ask.text
        done = await scene.call("asking", effect=effect, reply=reply(ask, option, text))
        assert done.ending is COMPLETED
        assert scene.noted("said") == [heard]
        assert scene.noted("called") == ["asking"]


async def test_a_page_that_is_to_be_opened_is_named_and_not_opened(tmp_path: Path) -> None:
    async with hostile(tmp_path, "asks_by_page") as scene:
        ask = asked(await scene.call("asking"))
        assert "https://x.example/in" in ask.text
        assert ask.schema_json == ""
        assert (await scene.call("asking", reply=reply(ask, "accept", "done"))).ending is COMPLETED
        assert scene.noted("said") == [{"action": "accept"}]


@BOTH
async def test_a_call_that_is_refused_until_a_page_was_opened_is_made_anew_after_it(
    tmp_path: Path, effect: Effect
) -> None:
    async with hostile(tmp_path, "page_first") as scene:
        ask = asked(await scene.call("charge", effect=effect))
        assert "https://x.example/in" in ask.text
        done = await scene.call("charge", effect=effect, reply=reply(ask, "accept", "done"))
        assert done.ending is COMPLETED
        assert scene.noted("called") == ["charge", "charge"]


@pytest.mark.parametrize("option", ["decline", "cancel"])
async def test_a_page_that_nobody_opens_is_the_end_of_a_call_that_did_nothing(
    tmp_path: Path, option: str
) -> None:
    async with hostile(tmp_path, "page_first") as scene:
        ask = asked(await scene.call("charge", effect=Effect.WRITE))
        done = await scene.call("charge", effect=Effect.WRITE, reply=reply(ask, option))
        assert (done.ending, done.may_pass) == (FAILED, False)
        assert scene.noted("called") == ["charge"]


async def test_a_page_that_is_not_named_is_nothing_to_ask_about(tmp_path: Path) -> None:
    async with hostile(tmp_path, "page_nowhere") as scene:
        refused = await scene.call("charge", effect=Effect.WRITE)
        assert (refused.ending, refused.may_pass) == (FAILED, False)


@pytest.mark.parametrize(
    "page", ["javascript:alert(1)", "file:///etc/passwd", "https://x.example/" + "x" * 70_000, "http:///in"]
)
async def test_a_refusal_until_something_is_opened_that_is_no_page_is_the_end_of_a_call_that_did_nothing(
    tmp_path: Path, page: str
) -> None:
    async with hostile(tmp_path, "page_first", PAGE=page) as scene:
        refused = await scene.call("charge", effect=Effect.WRITE)
        assert (refused.ending, refused.may_pass) == (FAILED, False)


@pytest.mark.parametrize(("effect", "ending"), [(Effect.READ, FAILED), (Effect.WRITE, UNCERTAIN)])
async def test_a_call_held_open_for_what_nobody_can_be_asked_is_given_up(
    tmp_path: Path, effect: Effect, ending: ToolEnding
) -> None:
    async with hostile(tmp_path, "asks_by_page", PAGE="javascript:alert(1)") as scene:
        assert (await scene.call("asking", effect=effect)).ending is ending
        await until(lambda: "notifications/cancelled" in scene.noted("method"))


async def test_a_server_that_wants_a_model_of_ours_is_told_no(tmp_path: Path) -> None:
    async with hostile(tmp_path, "asks_for_a_model") as scene:
        assert (await scene.call("asking")).ending is COMPLETED
        assert "error" in scene.noted("said")[0]


async def test_a_server_that_asks_again_opens_another_question(tmp_path: Path) -> None:
    async with hostile(tmp_path, "asks_for_ever") as scene:
        first = asked(await scene.call("asking"))
        second = asked(await scene.call("asking", reply=reply(first, "decline")))
        assert second.state_json != first.state_json


async def test_while_a_person_is_asked_no_place_is_taken_and_no_time_passes(tmp_path: Path) -> None:
    async with hostile(tmp_path, "plain") as scene:
        asks = [asked(await scene.call("asking", timeout_ms=20_000)) for _ in range(5)]  # of four places
        assert (await scene.call("echo")).ending is COMPLETED
        for ask in reversed(asks):
            assert (await scene.call("asking", reply=reply(ask, "decline"))).ending is COMPLETED


async def test_a_question_among_several_calls_is_put_to_nobody(tmp_path: Path) -> None:
    async with hostile(tmp_path, "silent_echo") as scene:
        await scene.servers.refresh(["there"])
        other = asyncio.create_task(scene.call("echo"))
        await until(lambda: "echo" in scene.noted("called"))
        assert (await scene.call("asking")).ending is COMPLETED
        assert scene.noted("said") == [{"action": "cancel"}]
        other.cancel()
        await asyncio.gather(other, return_exceptions=True)


@pytest.mark.parametrize(("effect", "ending"), [(Effect.READ, COMPLETED), (Effect.WRITE, UNCERTAIN)])
async def test_a_held_call_whose_server_was_started_since_is_begun_anew_only_if_it_may_be(
    tmp_path: Path, effect: Effect, ending: ToolEnding
) -> None:
    async with hostile(tmp_path, "plain") as scene:
        ask = asked(await scene.call("asking", effect=effect))
    async with hostile(tmp_path, "plain") as scene:
        said = reply(ask, "accept", '{"name": "Ann"}')
        done = await scene.call("asking", effect=effect, reply=said)
        assert done.ending is ending
        assert len(scene.noted("called")) == (2 if effect is Effect.READ else 1)
        accepted = [one for one in scene.noted("said") if one.get("action") == "accept"]
        assert len(accepted) == (1 if effect is Effect.READ else 0)


async def test_a_server_that_dies_while_a_person_is_asked_fails_the_call_at_once(tmp_path: Path) -> None:
    async with hostile(tmp_path, "plain") as scene:
        ask = asked(await scene.call("asking", effect=Effect.WRITE))
        link = scene.servers.link("there")
        assert link is not None
        await (await link.session()).close()
        done = await scene.call("asking", effect=Effect.WRITE, reply=reply(ask, "decline"))
        assert (done.ending, done.timed_out) == (UNCERTAIN, False)


async def test_the_answer_reaches_the_call_that_is_begun_anew_after_its_server_died(tmp_path: Path) -> None:
    async with hostile(tmp_path, "plain") as scene:
        ask = asked(await scene.call("asking"))
        link = scene.servers.link("there")
        assert link is not None
        await (await link.session()).close()
        done = await scene.call("asking", reply=reply(ask, "accept", '{"name": "Ann"}'))
        assert done.ending is COMPLETED
        accepted = [one for one in scene.noted("said") if one.get("action") == "accept"]
        assert [one["content"] for one in accepted] == [{"name": "Ann"}]


async def test_a_run_that_ends_while_a_person_is_asked_tells_the_server(tmp_path: Path) -> None:
    async with hostile(tmp_path, "plain") as scene:
        asked(await scene.call("asking"))
        scene.servers.let_go("run_1")
        await until(lambda: "notifications/cancelled" in scene.noted("method"))


async def test_a_run_that_ends_while_a_person_is_asked_leaves_the_calls_of_others_alone(
    tmp_path: Path,
) -> None:
    async with hostile(tmp_path, "silent_echo") as scene:
        asked(await scene.call("asking"))
        other = asyncio.create_task(scene.call("echo", effect=Effect.WRITE))
        await until(lambda: "echo" in scene.noted("called"))
        scene.servers.let_go("run_1")
        await until(lambda: scene.noted("said") == [{"action": "cancel"}])
        assert (await scene.call("failing")).ending is FAILED
        assert (other.done(), len(scene.noted("started"))) == (False, 1)
        other.cancel()
        await asyncio.gather(other, return_exceptions=True)
