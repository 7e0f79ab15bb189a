"""Compiling one source at a time, and the compilations that are kept.

Owns the turn and the bound of what is kept, in bytes. Does not own what a compilation is for (`workflows`).

A compiler is Python that runs in a thread: one of them slows the event loop a little, several at once a lot.
"""

import asyncio
import hashlib
from collections import OrderedDict

from jackline_server.core.plan import ModelStep
from jackline_server.runtime.ports.definitions import Compilation, Compiler, Source
from jackline_server.runtime.workflows.named_workflows import digest_of

MOST_ENTRIES = 256
MOST_BYTES = 96 * 1024 * 1024

_BYTES_AN_ENTRY, _BYTES_A_CHARACTER = 16 * 1024, 32
"""A plan takes some thirty times the room of its source's text."""


class Compilations:
    """The compilations of a server, by their sources: what was used longest ago makes room."""

    def __init__(self, *, compiler: Compiler, most_bytes: int = MOST_BYTES) -> None:
        self._compiler = compiler
        self._most_bytes = most_bytes
        self._kept: OrderedDict[bytes, tuple[Compilation, int]] = OrderedDict()
        self._bytes = 0
        self._turn = asyncio.Lock()

    @property
    def size_bytes(self) -> int:
        """What the kept compilations take, roughly."""
        return self._bytes

    async def of(self, source: Source) -> Compilation:
        """The compilation of a source, made when its turn comes if it is not kept."""
        key = _key(source)
        found = self._kept.get(key)
        if found is None:
            await self._turn.acquire()
            found = self._kept.get(key)  # another caller may have had the same source
            if found is None:
                return await self._compiled(source)
            self._turn.release()
        self._kept.move_to_end(key)
        return found[0]

    async def again(self, source: Source) -> Compilation:
        """A new compilation of a source, in place of the one that is kept."""
        await self._turn.acquire()
        return await self._compiled(source)

    async def _compiled(self, source: Source) -> Compilation:
        """Compile in the turn that was taken. The thread gives it back, also when the caller has gone."""
        running = asyncio.get_running_loop().run_in_executor(None, self._compiler.compile, source)
        running.add_done_callback(lambda _: self._turn.release())
        compilation = await asyncio.shield(running)
        self._keep(_key(source), compilation, _weight(source, compilation))
        return compilation

    def _keep(self, key: bytes, compilation: Compilation, weight: int) -> None:
        _, old = self._kept.pop(key, (None, 0))
        self._kept[key] = compilation, weight
        self._bytes += weight - old
        while self._bytes > self._most_bytes or len(self._kept) > MOST_ENTRIES:
            _, (_, freed) = self._kept.popitem(last=False)
            self._bytes -= freed


def _key(source: Source) -> bytes:
    digest = hashlib.sha256()
    parts = [source.file.encode("utf-8", "surrogatepass"), source.yaml.encode("utf-8", "surrogatepass")]
    for path, data in sorted(source.files.items()):
        parts += [path.encode("utf-8", "surrogatepass"), data]
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    if source.known:
        digest.update(digest_of(source.known))
    return digest.digest()


def _weight(source: Source, compilation: Compilation) -> int:
    written = len(source.yaml) + sum(map(len, source.files.values()))
    steps = compilation.plan.steps.values() if compilation.plan is not None else ()
    tools = [tool for step in steps if isinstance(step, ModelStep) for tool in step.tools]
    shown = sum(len(tool.parameters_json) + len(tool.description) for tool in tools)
    return _BYTES_AN_ENTRY + _BYTES_A_CHARACTER * written + 4 * shown
