"""What a shell completes: ids of runs, names of workflows, pools, models and contexts.

Owns asking for them within a second, and saying nothing at all where that fails: a shell that completes shows
no errors. gRPC is loaded only once something listens at the address.
"""

import asyncio
import re
import socket
import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from jackline_client.cli.context_file import contexts_path, read_contexts
from jackline_client.cli.server_choice import Chosen, Named

if TYPE_CHECKING:
    from jackline_client import JacklineClient

_PROBE_S = 0.25
_CALL_S = 0.5
_MOST = 100
ON_BUSY = ("reject", "enqueue", "steer", "replace")
MESSAGE_ROLES = ("user", "assistant")
_OPEN = ("QUEUED", "RUNNING", "PAUSED", "WAITING")
# Some shells evaluate what they are given: nothing else that a server says gets there.
_HARMLESS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/@:-]{0,199}")


def contexts(incomplete: str) -> list[str]:
    """Completes the name of a context."""
    try:
        return _matching(read_contexts(contexts_path()).by_name, incomplete)
    except Exception:  # noqa: BLE001 - whatever it is, a shell that completes shows no errors
        return []


def runs(ctx: Any, incomplete: str) -> list[str]:  # noqa: ANN401 - typer 0.20 and 0.29 have different classes for it
    """Completes the id of a run, the newest first."""
    return _matching(_asked(ctx, lambda client: _run_ids(client, ())), incomplete)


def open_runs(ctx: Any, incomplete: str) -> list[str]:  # noqa: ANN401 - see above
    """Completes the id of a run that has not ended, the newest first."""
    return _matching(_asked(ctx, lambda client: _run_ids(client, _OPEN)), incomplete)


def threads(ctx: Any, incomplete: str) -> list[str]:  # noqa: ANN401 - see above
    """Completes the id of a thread, the newest first."""

    async def find(client: "JacklineClient") -> list[str]:
        found: list[str] = []
        async with aclosing(client.list_threads(page_size=_MOST)) as listed:
            async for thread in listed:
                found.append(thread.thread_id)
                if len(found) == _MOST:
                    break
        return found

    return _matching(_asked(ctx, find), incomplete)


def on_busy(incomplete: str) -> list[str]:
    """Completes what happens if a thread is busy."""
    return _matching(ON_BUSY, incomplete)


def message_roles(incomplete: str) -> list[str]:
    """Completes who speaks in a message that is appended."""
    return _matching(MESSAGE_ROLES, incomplete)


async def _run_ids(client: "JacklineClient", states: Sequence[str]) -> list[str]:
    from jackline.v1.run_pb2 import RunState  # noqa: PLC0415 - a silent server spares us protobuf
    from jackline_client import RunFilter  # noqa: PLC0415 - see above

    wanted = RunFilter(states=tuple(RunState.Value(f"RUN_STATE_{state}") for state in states))
    found: list[str] = []
    async with aclosing(client.list_runs(wanted, page_size=_MOST)) as listed:
        async for run in listed:
            found.append(run.run_id)
            if len(found) == _MOST:
                break
    return found


def workflows(ctx: Any, incomplete: str) -> list[str]:  # noqa: ANN401 - see above
    """Completes the name of a workflow."""

    async def find(client: "JacklineClient") -> list[str]:
        return [revision.name async for revision in client.list_workflows()]

    return _matching(_asked(ctx, find), incomplete)


def pools(ctx: Any, incomplete: str) -> list[str]:  # noqa: ANN401 - see above
    """Completes the name of a pool of tool workers."""

    async def find(client: "JacklineClient") -> list[str]:
        return [pool.name for pool in await client.list_tool_workers()]

    return _matching(_asked(ctx, find), incomplete)


def run_states(incomplete: str) -> list[str]:
    """Completes the state of a run."""
    from jackline.v1.run_pb2 import RunState  # noqa: PLC0415 - the other completions do without protobuf

    return _matching((name.removeprefix("RUN_STATE_").lower() for name in RunState.keys()[1:]), incomplete)


def event_kinds(incomplete: str) -> list[str]:
    """Completes the kind of an event."""
    from jackline_client.cli.given import event_kinds as names  # noqa: PLC0415 - the others do without protobuf

    return _matching(names(), incomplete)


def models(ctx: Any, incomplete: str) -> list[str]:  # noqa: ANN401 - see above
    """Completes the name of a model profile."""

    async def find(client: "JacklineClient") -> list[str]:
        return list((await client.get_server_info()).models)

    return _matching(_asked(ctx, find), incomplete)


def _matching(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete) and _HARMLESS.fullmatch(name)]


def _asked(ctx: Any, find: Callable[["JacklineClient"], Awaitable[list[str]]]) -> list[str]:  # noqa: ANN401 - see above
    """Asks the server that the words typed so far name; nothing if that fails or takes too long."""
    try:
        given, before = ctx.params, ctx.find_root().params
        named = Named(
            address=given.get("address") or before.get("address"),
            context=given.get("context") or before.get("context"),
        )
        server = named.choose()
        token = server.token()
        if not _listens(server):
            return []
        return asyncio.run(_called(server, token, find))
    except Exception:  # noqa: BLE001 - whatever it is, a shell that completes shows no errors
        return []


async def _called(
    server: Chosen, token: str | None, find: Callable[["JacklineClient"], Awaitable[list[str]]]
) -> list[str]:
    from jackline_client import JacklineClient  # noqa: PLC0415 - brings gRPC, which a silent server spares us

    async with JacklineClient(server.address, token=token, timeout_s=_CALL_S) as client:
        async with asyncio.timeout(_CALL_S):
            return await find(client)


def _listens(server: Chosen) -> bool:
    """True if something listens there. In a thread: looking a name up can't be bounded otherwise."""
    answers: list[bool] = []

    def probe() -> None:
        try:
            _connected(server.address).close()
            answers.append(True)
        except Exception:  # noqa: BLE001 - else a thread prints it; a host that can't be encoded is a ValueError
            answers.append(False)

    thread = threading.Thread(target=probe, daemon=True)
    thread.start()
    thread.join(2 * _PROBE_S)
    return bool(answers) and answers[0]


def _connected(address: str) -> socket.socket:
    if address.startswith("unix:"):
        connected = socket.socket(socket.AF_UNIX)
        connected.settimeout(_PROBE_S)
        connected.connect(address.removeprefix("unix:").removeprefix("//"))
        return connected
    host, _, port = address.rpartition(":")
    return socket.create_connection((host.strip("[]"), int(port)), timeout=_PROBE_S)
