"""What a server can't start with: it says so in one line and ends with a code of its own."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

USAGE = 2
SECONDS = 60


async def served(folder: Path, *flags: str) -> tuple[int | None, list[str]]:
    """The exit code of a server that can't start, and the lines that it wrote."""
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "JACKLINE_STATE_DIR": str(folder / "state"),
    }
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "jackline_client.cli.main", "serve", "--listen", "127.0.0.1:0"),
        *("--data", str(folder / "data"), *flags),
        env=environ,
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(SECONDS):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode, (out + err).decode().splitlines()


@pytest.mark.parametrize("name", ["nowhere", "a_file", "nowhere/below"])
async def test_a_folder_of_workflows_that_can_not_be_opened_ends_the_start(name: str, tmp_path: Path) -> None:
    (tmp_path / "a_file").write_text("name: x\n")
    code, lines = await served(tmp_path, "--workflows", str(tmp_path / name))
    assert (code, len(lines)) == (USAGE, 1)
    assert str(tmp_path / name) in lines[0]
    assert not (tmp_path / "data").exists()
