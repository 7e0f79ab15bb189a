"""MCP over streamable HTTP, through the guarded clients."""

from pathlib import Path

import pytest

from jackline_server.core.plan import Effect
from jackline_server.runtime.ports.secrets import Secret
from jackline_server.runtime.ports.tools import ToolEnding
from tests.egress.raw_server import always, answer, serving
from tests.support.mcp_servers import served_over_http
from tests.tools.mcp.remote_server import until
from tests.tools.mcp.scene import NAME, at, reached

COMPLETED, FAILED, UNCERTAIN = ToolEnding.COMPLETED, ToolEnding.FAILED, ToolEnding.UNCERTAIN


@pytest.mark.parametrize("json_response", [True, False], ids=["json", "event stream"])
@pytest.mark.parametrize("stateless", [True, False], ids=["stateless", "with sessions"])
async def test_a_tool_over_http_is_listed_and_called(tmp_path: Path, json_response: bool, stateless: bool):
    async with (
        served_over_http(json_response=json_response, stateless=stateless) as (port, said),
        reached(at(port), tmp_path) as scene,
    ):
        result = await scene.call("say", {"text": "hello"}, effect=Effect.WRITE)
        assert result.ending is COMPLETED, result
        assert said == ["hello"]


@pytest.mark.parametrize("json_response", [True, False], ids=["json", "event stream"])
@pytest.mark.parametrize("stateless", [True, False], ids=["stateless", "with sessions"])
async def test_a_call_over_http_ends_with_its_time_and_the_server_is_told(
    tmp_path: Path, json_response: bool, stateless: bool
):
    async with (
        served_over_http(json_response=json_response, stateless=stateless) as (port, said),
        reached(at(port), tmp_path) as scene,
    ):
        await scene.servers.refresh([NAME])
        late = await scene.call("wait", effect=Effect.WRITE, timeout_ms=500)
        assert late.ending is UNCERTAIN
        if (
            not json_response
        ):  # a server of the SDK's that answers in JSON does not look whether anybody waits
            await until(lambda: "told to stop" in said)
        assert (await scene.call("say", {"text": "on"})).ending is COMPLETED
        assert said[-1] == "on"


ELSEWHERE = "Location: http://127.0.0.1:{victim}/mcp\r\n"


@pytest.mark.parametrize(
    ("status", "kind", "body", "more"),
    [
        ("401 Unauthorized", "text/plain", "no", ""),
        ("500 Oops", "text/plain", "no", ""),
        ("404 Not Found", "text/plain", "no", ""),
        ("200 OK", "text/html", "<p>hello", ""),
        ("200 OK", "application/json", "{", ""),
        ("200 OK", "application/json", "[]", ""),
        ("200 OK", "text/event-stream", "data: {\n\n", ""),
        ("307 Elsewhere", "text/plain", "", ELSEWHERE),
        ("200 OK", "application/json", "{}", "Content-Encoding: gzip\r\n"),
        ("200 OK", "application/json", "{}", "Set-Cookie: a=b\r\n"),
    ],
)
async def test_a_server_that_is_none_has_no_catalog_and_leads_nowhere_else(
    tmp_path: Path, status: str, kind: str, body: str, more: str
):
    async with serving(always(answer())) as victim:
        reply = answer(body.encode(), status=status, content_type=kind, more=more.format(victim=victim.port))
        async with (
            serving(always(reply)) as server,
            reached(at(server.port, {"authorization": Secret("Bearer hush")}), tmp_path) as scene,
        ):
            assert await scene.servers.refresh([NAME]) == {NAME: None}
            assert victim.connections == 0
            assert {one.headers.get("authorization") for one in server.ledger} == {"Bearer hush"}
            assert not any("cookie" in one.headers for one in server.ledger)
            problem = scene.servers.catalog(NAME)
            assert isinstance(problem, str)
            assert "hush" not in problem
