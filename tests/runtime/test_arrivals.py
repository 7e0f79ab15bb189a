"""A server that boots: what it waits for before it listens, and who waits for the rest."""

import asyncio
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from jackline_server.codec.proto_codec import ProtoCodec
from jackline_server.core.plan import Plan
from jackline_server.folder import WorkflowFolder
from jackline_server.runtime.machine import SystemClock
from jackline_server.runtime.pinned_tools import PinnedTool, version_of
from jackline_server.runtime.ports.definitions import Source
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT, Tenant
from jackline_server.runtime.reading.histories import Histories
from jackline_server.runtime.reading.loading import Loading
from jackline_server.runtime.refusals import Reason, Refused
from jackline_server.runtime.workflows.arrivals import Arrivals
from jackline_server.runtime.workflows.workflows import Workflows
from jackline_server.storage.memory.store import memory_store
from jackline_server.testing.harness import CALLER
from tests.definitions.workflows import Shelves, compiler, described
from tests.tools.mcp.scene import connection, process

CALLS = """\
name: calls
flow: [echo]
steps:
  echo: {kind: mcp, effect: read, connection: there, tool: echo}
"""
PLAIN = "name: plain\nmodel: fast\nflow: [x]\nsteps:\n  x: {kind: completion, prompt: p}\n"
ABOVE = """\
name: above
flow: [x]
steps:
  x: {kind: workflow, effect: read, workflow: calls}
"""


ECHO = {"echo": described("echo")}


class Slow(Shelves):
    """A server that answers when it is let. Implements `Catalogs` as well."""

    def __init__(self) -> None:
        super().__init__(ECHO, connections={"there": connection(process("/bin/false"))})
        self.answers = asyncio.Event()
        self._was_asked = False

    def catalog(self, name: str) -> dict[str, PinnedTool] | str:
        return super().catalog(name) if self._was_asked else "it was not asked yet"

    async def refresh(self, connections: Collection[str]) -> Mapping[str, str | None]:
        await self.answers.wait()
        self._was_asked = True
        return dict.fromkeys(connections, version_of(ECHO))

    async def changed(self, plan: Plan) -> Sequence[str]:
        del plan
        return ()


class Booting:
    """A folder of workflows in a server that has just begun."""

    def __init__(self, folder: Path, *, patience_s: float, at_hand: Collection[str]) -> None:
        self.catalogs = Slow()
        store, codec = memory_store(), ProtoCodec()
        loading = Loading(
            journal=store.journal, codec=codec, histories=Histories(blobs=store.blobs, codec=codec)
        )
        self.workflows = Workflows(
            revisions=store.revisions,
            compiler=compiler(self.catalogs),
            catalogs=self.catalogs,
            loading=loading,
            clock=SystemClock(),
            arrivals=Arrivals(patience_s=patience_s),
        )
        self.folder = WorkflowFolder(folder, workflows=self.workflows, at_hand=at_hand)

    async def plan(self, name: str, tenant: Tenant = DEFAULT_TENANT) -> Plan:
        return await self.workflows.plan_for(tenant, name, None)


@asynccontextmanager
async def booted(
    folder: Path, *, patience_s: float = 60, at_hand: Collection[str] = ()
) -> AsyncGenerator[Booting]:
    for name, text in (("above", ABOVE), ("calls", CALLS), ("plain", PLAIN)):
        (folder / f"{name}.yaml").write_text(text, "utf-8")
    booting = Booting(folder, patience_s=patience_s, at_hand=at_hand)
    async with asyncio.timeout(60):
        await booting.folder.import_at_hand()
        watching = asyncio.create_task(booting.folder.watch())
        try:
            yield booting
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)


async def test_a_server_that_does_not_answer_keeps_no_workflow_waiting_that_needs_it_not(
    tmp_path: Path,
) -> None:
    async with booted(tmp_path) as server:
        assert (await server.plan("plain")).name == "plain"
        assert not server.catalogs.answers.is_set()


@pytest.mark.parametrize("name", ["calls", "above"])
async def test_a_run_waits_for_the_tools_of_its_workflow_and_of_those_that_it_runs(
    tmp_path: Path, name: str
) -> None:
    async with booted(tmp_path) as server:
        waiting = asyncio.create_task(server.plan(name))
        await server.plan("plain")
        assert not waiting.done()
        server.catalogs.answers.set()
        assert (await waiting).name == name


async def test_who_has_waited_long_enough_is_told_whose_answer_is_missing(tmp_path: Path) -> None:
    async with booted(tmp_path, patience_s=0.01) as server:
        with pytest.raises(Refused) as caught:
            await server.plan("calls")
        refused = caught.value
        assert (refused.reason, refused.metadata["connections"]) == (Reason.WORKFLOW_NOT_FOUND, "there")
        assert refused.retry_after_ms is not None
        with pytest.raises(Refused) as other:
            await server.plan("nowhere")
        assert other.value.retry_after_ms is None


async def test_nobody_takes_the_name_of_a_workflow_that_is_on_its_way(tmp_path: Path) -> None:
    async with booted(tmp_path) as server:
        source = Source(yaml=PLAIN.replace("plain", "calls"), files={})
        putting = asyncio.create_task(server.workflows.put(CALLER, source, alias="", expect_digest=""))
        await server.plan("plain")
        server.catalogs.answers.set()
        with pytest.raises(Refused) as refused:
            await putting
        assert refused.value.reason is Reason.WORKFLOW_OWNED_BY_FILES


async def test_a_tenant_without_a_folder_waits_for_nothing(tmp_path: Path) -> None:
    async with booted(tmp_path) as server:
        with pytest.raises(Refused) as refused:
            await server.plan("calls", Tenant("another"))
        assert refused.value.retry_after_ms is None


async def test_what_is_pinned_by_a_lock_is_there_when_the_server_listens(tmp_path: Path) -> None:
    for name in ("calls", "above"):
        (tmp_path / f"{name}.yaml").write_text("", "utf-8")
    booting = Booting(tmp_path, patience_s=60, at_hand={"there"})
    booting.catalogs.answers.set()
    (tmp_path / "calls.yaml").write_text(CALLS, "utf-8")
    async with asyncio.timeout(60):
        await booting.folder.import_at_hand()
        assert (await booting.plan("calls")).name == "calls"
