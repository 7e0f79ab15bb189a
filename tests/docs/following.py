"""A page followed as a reader would: files written, servers started, commands run, in their order.

What a block is for stands behind its language:

    ```python file=shop.py        is written to that file of the folder that the reader is in
    ```bash serve                 one line that starts a server, in place of the one that runs
    ```bash run code=3            runs in the reader's shell; a command that fails does so with this code
    ```text shows                 what the block before it printed
    ```bash install               nothing to this reader, who has everything installed

Owns the shell, the server and the comparison. Does not own what a page has to say. The server takes a free
port by the environment. Ids, times, dates, ports and the numbers of tokens are those of one run; everything
else has to be printed as the page shows it, and a line `…` stands for any lines.
"""

import asyncio
import os
import re
import sys
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.docs.pages import all_blocks
from tests.support.server_process import free_port

BLOCK_S = 60.0
_START_S = 60.0
_END_S = 30.0
_MARK = "----- end of a block -----"
_ANY = "…"
_OF_ONE_RUN = (
    (re.compile(r"\brun_[0-9a-z]{26}\b"), "RUN"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"), "TIME"),
    (re.compile(r"\b[\d,]+ tokens\b"), "N tokens"),
    (re.compile(r"\bbudget tokens: [\d,]+ used\b"), "budget tokens: N used"),
    (re.compile(r"\b[\d,.]+ (ms|s)\b"), "TIME"),
    (re.compile(r"127\.0\.0\.1:\d+"), "ADDRESS"),
    (re.compile(r"[ \t]+"), " "),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """What a block printed, and the exit codes of those of its commands that failed."""

    text: str
    failed: tuple[int, ...]


class Reader:
    """A person with a folder, a shell in it, and at most one server. Close it by leaving `reader_in`."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self._failures = folder / ".failures"
        self._environ = dict(environ)
        self._home = folder
        self._shell: asyncio.subprocess.Process | None = None
        self._server: asyncio.subprocess.Process | None = None

    async def follow(self, page: str) -> list[str]:
        """Do what the page says, from its top to its end; the infos of the blocks done.

        Raises AssertionError with the line of the page where something else happens than it says.
        """
        done: list[str] = []
        printed = Printed(text="", failed=())
        for block in all_blocks(page):
            word, _, rest = block.info.partition(" ")
            where = f"line {block.line} of the page"
            match rest.split():
                case [one] if one.startswith("file="):
                    await self._write(one.removeprefix("file="), block.code)
                case ["serve"]:
                    await self.serve(block.code)
                case ["run", *codes]:
                    printed = await self.run(block.code)
                    expected = tuple(int(code.removeprefix("code=")) for code in codes)
                    assert printed.failed == expected, f"{where} ended with {printed.failed}: {printed.text}"
                case ["shows"]:
                    assert is_shown(block.code, printed.text), (
                        f"{where} shows something else than:\n{printed.text}"
                    )
                case _:
                    assert word != "bash" or rest == "install", f"{where} is done by nobody"
                    continue
            done.append(block.info)
        return done

    async def run(self, code: str) -> Printed:
        """Run commands in the shell, where folder and variables stay as they were left."""
        shell = await self._open_shell()
        assert shell.stdin is not None
        assert shell.stdout is not None
        self._failures.write_text("")
        shell.stdin.write(f"{{\n{code}\n}} </dev/null\necho '{_MARK}'\n".encode())
        async with asyncio.timeout(BLOCK_S):
            output = (await shell.stdout.readuntil(f"{_MARK}\n".encode())).decode()
        failed = tuple(int(line) for line in self._failures.read_text().split())
        return Printed(text=output.removesuffix(f"{_MARK}\n"), failed=failed)

    async def serve(self, code: str) -> None:
        """Start a server by a line of the page, once the one before it has drained."""
        await self.stop_serving()
        where = (await self.run("pwd")).text.strip()
        self._server = await asyncio.create_subprocess_exec(
            *("bash", "-c", f"exec env {code.strip()}"),
            cwd=where,
            env=self._environ,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
        )
        assert self._server.stdout is not None
        async with asyncio.timeout(_START_S):
            line = (await self._server.stdout.readline()).decode()
        assert line.startswith("listening on "), line

    async def stop_serving(self) -> None:
        """Let the server drain, if there is one."""
        server, self._server = self._server, None
        if server is None:
            return
        if server.returncode is None:
            server.terminate()
        async with asyncio.timeout(_END_S):
            assert await server.wait() == 0

    async def close(self) -> None:
        """End what is left, whatever happened."""
        for process in (self._shell, self._server):
            if process is not None and process.returncode is None:
                process.kill()
                await process.communicate()

    async def _write(self, name: str, text: str) -> None:
        where = Path((await self.run("pwd")).text.strip())
        (where / name).parent.mkdir(parents=True, exist_ok=True)
        (where / name).write_text(text, encoding="utf-8")

    async def _open_shell(self) -> asyncio.subprocess.Process:
        if self._shell is None:
            self._shell = await asyncio.create_subprocess_exec(
                *("bash", "--norc"),
                cwd=self._home,
                env=self._environ,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            assert self._shell.stdin is not None
            self._shell.stdin.write(f"trap 'echo $? >>{self._failures}' ERR\n".encode())
        return self._shell


@asynccontextmanager
async def reader_in(folder: Path, **environ: str) -> AsyncGenerator[Reader]:
    """A reader in an empty folder, with the commands of this environment and nothing else of it."""
    address = f"127.0.0.1:{free_port()}"
    known = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "JACKLINE_STATE_DIR": str(folder / ".state"),
        "JACKLINE_LISTEN": address,
        "JACKLINE_ADDRESS": address,
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
    }
    reader = Reader(folder, {**known, **environ})
    try:
        yield reader
        await reader.stop_serving()
    finally:
        await reader.close()


def is_shown(page: str, printed: str) -> bool:
    """True if what was printed is what the page shows, but for what belongs to one run alone."""
    shown = "\n".join(r"(?:.*\n)*?.*" if line == _ANY else re.escape(line) for line in _lines(page))
    return re.fullmatch(shown, "\n".join(_lines(printed))) is not None


def _lines(text: str) -> Iterator[str]:
    for line in text.strip().splitlines():
        fixed = line.rstrip()
        for pattern, word in _OF_ONE_RUN:
            fixed = pattern.sub(word, fixed)
        yield fixed
