"""gRPC services for tests: the till in Go, and one in Python that answers as a test says."""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, cast

import grpc.aio
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_reflection.v1alpha import reflection

from jackline_server.core.plan import Effect, GrpcAction, JsonValue
from jackline_server.egress.client import GuardedClients
from jackline_server.runtime.ports.grpc import GrpcConnection, GrpcTls
from jackline_server.runtime.ports.secrets import Secret
from jackline_server.runtime.ports.tools import ToolResult
from jackline_server.tools.function import FunctionTool
from jackline_server.tools.function_catalog import FunctionCatalog
from jackline_server.tools.grpc.targets import GrpcTargets
from jackline_server.tools.grpc.tool import GrpcCalls
from jackline_server.tools.http import HttpTool
from jackline_server.tools.toolbox import StepToolbox
from tests.clients import building
from tests.tools.invocations import invocation

NAME = "till"
PROTO = building.GO / "till" / "till.proto"
SECRET = "Bearer till-secret-of-the-tests"


def connection(target: str, **more: Any) -> GrpcConnection:
    fields: dict[str, Any] = {
        "tls": None,
        "metadata": {"authorization": Secret(SECRET)},
        "descriptors": None,
        "trusted": True,
        "allow": None,
        "lock": None,
        "start_timeout_ms": 5_000,
        "timeout_ms": 20_000,
        "concurrency": 4,
    }
    return GrpcConnection(name=NAME, target=target, **{**fields, **more})


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A connection, and the toolbox that calls it."""

    targets: GrpcTargets
    box: StepToolbox

    async def digest(self, method: str) -> str:
        link = self.targets.link(NAME)
        assert link is not None
        return (await link.catalog(max_age_s=60))[method].digest

    async def call(
        self,
        method: str,
        arguments: dict[str, JsonValue] | None = None,
        *,
        effect: Effect = Effect.READ,
        fixed: str = "{}",
        digest: str | None = None,
        timeout_ms: int = 10_000,
    ) -> ToolResult:
        name = f"till.v1.Till/{method}"
        found = digest if digest is not None else await self.digest(name)
        action = GrpcAction(connection=NAME, method=name, arguments_json=fixed, method_digest=found)
        return await self.box.call(invocation(action, arguments, effect=effect, timeout_ms=timeout_ms))


@asynccontextmanager
async def scene(made: GrpcConnection) -> AsyncGenerator[Scene]:
    targets = GrpcTargets({NAME: made})
    box = StepToolbox(
        http=HttpTool(clients=GuardedClients(), connections={}),
        functions=FunctionTool(catalog=FunctionCatalog(roots=())),
        grpc=GrpcCalls(targets=targets),
    )
    try:
        yield Scene(targets=targets, box=box)
    finally:
        await targets.close()


# --- the till in Go ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Till:
    """A running till, and its ledger."""

    address: str
    ledger: Path

    def entries(self) -> list[dict[str, Any]]:
        if not self.ledger.exists():
            return []
        return [json.loads(line) for line in self.ledger.read_text("utf-8").splitlines()]


def till_program() -> str:
    """The till, built once."""
    if lacks := building.lacking(building.LANGUAGES["go"]):
        refuse = pytest.fail if os.environ.get("CI") else pytest.skip
        refuse(f"go: {lacks}")
    building.built("go")
    return str(building.CACHE / "go-till")


@asynccontextmanager
async def till(folder: Path, *flags: str) -> AsyncGenerator[Till]:
    program = await asyncio.to_thread(till_program)
    ledger = folder / "ledger.jsonl"
    process = await asyncio.create_subprocess_exec(
        program, "-listen", "127.0.0.1:0", "-ledger", str(ledger), *flags, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(20):
            line = (await process.stdout.readline()).decode()
        yield Till(address=line.removeprefix("listening on ").strip(), ledger=ledger)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


# --- one in Python, that answers as a test says ----------------------------------------------------

Answer = Callable[[bytes, grpc.aio.ServicerContext[Any, Any]], Awaitable[bytes]]


@cache
def descriptors(text: str | None = None) -> bytes:
    """A file descriptor set of the till's proto, or of that text, comments included."""
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder) / "till.proto", Path(folder) / "till.binpb"
        source.write_text(text or PROTO.read_text("utf-8"), encoding="utf-8")
        words = ["-I", folder, "--include_imports", "--include_source_info", f"--descriptor_set_out={made}"]
        command = [sys.executable, "-m", "grpc_tools.protoc", *words, str(source)]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        return made.read_bytes()


@dataclass(slots=True)
class Odd:
    """What a service in Python does, by method; each takes and gives the bytes of a message."""

    answers: dict[str, Answer] = field(default_factory=dict[str, Answer])
    files: bytes = b""
    calls: list[str] = field(default_factory=list[str])
    address: str = ""


@asynccontextmanager
async def odd(
    answers: Mapping[str, Answer], *, proto: str | None = None, newer: grpc.StatusCode | None = None
) -> AsyncGenerator[Odd]:
    """A server with the till's descriptors, or of another proto, behind reflection of the older version.

    `newer` is how it ends questions of the newer version; left out, it does not know them.
    """
    made = Odd(answers=dict(answers), files=descriptors(proto))
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(made.files).file:
        pool.AddSerializedFile(file.SerializeToString())

    def handler(name: str) -> Any:
        async def answered(request: bytes, context: grpc.aio.ServicerContext[Any, Any]) -> bytes:
            made.calls.append(name)
            return await made.answers[name](request, context)

        return cast(Any, grpc).unary_unary_rpc_method_handler(answered)

    methods = ("GetOrder", "Refund", "Charge", "Echo")
    server = grpc.aio.server(options=(("grpc.so_reuseport", 0), ("grpc.max_send_message_length", 64 << 20)))
    handlers = {name: handler(name) for name in methods}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("till.v1.Till", handlers),))
    if newer is not None:
        server.add_generic_rpc_handlers((_ending_reflection(newer),))
    reflection.enable_server_reflection(("till.v1.Till",), server, pool=pool)
    made.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    try:
        yield made
    finally:
        await server.stop(grace=0)


def _ending_reflection(code: grpc.StatusCode) -> Any:
    async def ended(_: object, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        await context.abort(code, "not now")

    known = {"ServerReflectionInfo": cast(Any, grpc).stream_stream_rpc_method_handler(ended)}
    return grpc.method_handlers_generic_handler("grpc.reflection.v1.ServerReflection", known)


def tls(folder: Path, *, client: str = "") -> GrpcTls:
    return GrpcTls(
        roots=folder / "ca.pem",
        certificate=folder / f"{client}.pem" if client else None,
        key=folder / f"{client}.key" if client else None,
    )
