"""`jackline init`: the project that it writes runs as it says, word for word."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from jackline.v1.workflow_service_pb2 import Severity
from jackline_client import JacklineClient
from jackline_client.credentials import find_token
from tests.cli.console import Console, Done
from tests.support.server_process import free_port

FILES = {
    ".gitignore",
    "README.md",
    "jackline.toml",
    "notes.py",
    "notes.txt",
    "script.yaml",
    "workflows/assistant.yaml",
}


def written(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def commands(shown: str) -> list[str]:
    """The lines under `Next:`, as they would be pasted."""
    return [line.strip() for line in shown.partition("Next:\n")[2].splitlines()]


async def shell(console: Console, line: str, folder: Path, address: str) -> Done:
    """A printed line in a shell, where `jackline` is the command under test."""
    host = f"cd '{folder}' && jackline() {{ $JACKLINE \"$@\"; }}; {line}"
    return await console.shell(host, JACKLINE_ADDRESS=address, JACKLINE_TOKEN="")


@asynccontextmanager
async def served(console: Console, line: str, folder: Path, address: str) -> AsyncGenerator[None]:
    """The printed command that serves, but at an address that is free on this machine."""
    words = line.removeprefix("jackline ").split()
    server = await console.start(*words, cwd=folder, JACKLINE_LISTEN=address, JACKLINE_TOKEN="")
    try:
        assert server.stdout is not None
        async with asyncio.timeout(60):
            assert await server.stdout.readline() == f"listening on {address}\n".encode()
        yield
    finally:
        server.terminate()
        async with asyncio.timeout(30):
            await server.communicate()
    assert server.returncode == 0


async def test_the_commands_that_it_prints_run_in_the_folder_that_it_made(tmp_path: Path):
    console = Console(address="", home=tmp_path)
    made = await console.run("init", "proj", JACKLINE_TOKEN="")
    assert made.code == 0, made.err
    folder, address = tmp_path / "proj", f"127.0.0.1:{free_port()}"
    assert written(folder) == FILES
    enter, serve, run, doctor = commands(made.out)
    assert enter == "cd proj"
    readme = (folder / "README.md").read_text("utf-8")
    assert all(line in readme for line in (serve, run, doctor))

    async with served(console, serve, folder, address):
        done = await shell(console, run, folder, address)
        assert (done.code, "kettle whistles" in done.out) == (0, True), done.out + done.err
        asked = await shell(console, 'jackline run assistant -i message="Remember: buy tea"', folder, address)
        assert asked.code == 0, asked.out + asked.err
        assert "Remember: buy tea\n" in (folder / "notes.txt").read_text("utf-8")
        text = (folder / "workflows/assistant.yaml").read_text("utf-8")
        assert await findings(tmp_path, text, address) == []

    looked = await shell(console, doctor.replace("doctor", "doctor --listen 127.0.0.1:0"), folder, address)
    assert (looked.code, "no problems, no warnings" in looked.out) == (0, True), looked.out


async def findings(home: Path, workflow: str, address: str) -> list[str]:
    """What the server finds wrong with the workflow; what a run may spend is no finding."""
    async with JacklineClient(address, token=find_token(address, environ={"HOME": str(home)})) as client:
        checked = await client.validate_workflow(workflow)
    return [one.message for one in checked.findings if one.severity != Severity.SEVERITY_INFO]


async def test_nothing_that_is_there_is_overwritten_unless_forced(tmp_path: Path):
    console = Console(address="", home=tmp_path)
    (tmp_path / "script.yaml").write_text("mine", "utf-8")
    (tmp_path / "notes.py").symlink_to(tmp_path / "elsewhere")
    refused = await console.run("init", JACKLINE_TOKEN="")
    assert refused.code == 2
    assert "script.yaml" in refused.err
    assert "notes.py" in refused.err
    assert "jackline.toml" not in refused.err
    assert written(tmp_path) == {"script.yaml"}

    forced = await console.run("init", "--force", JACKLINE_TOKEN="")
    assert forced.code == 0, forced.err
    assert written(tmp_path) >= FILES
    assert (tmp_path / "script.yaml").read_text("utf-8") != "mine"
    assert not (tmp_path / "notes.py").is_symlink()
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("target", ["elsewhere", "missing", "workflows"])
@pytest.mark.parametrize("words", [(), ("--force",)])
async def test_nothing_is_written_through_a_folder_that_leads_out(
    tmp_path: Path, words: tuple[str, ...], target: str
):
    project = tmp_path / "proj"
    project.mkdir()
    (tmp_path / "elsewhere").mkdir()
    link = project / "workflows"
    link.symlink_to(link if target == "workflows" else tmp_path / target)
    done = await Console(address="", home=tmp_path).run("init", "proj", *words, JACKLINE_TOKEN="")
    assert (done.code, "Traceback" in done.err) == (2, False)
    assert str(Path("proj/workflows")) in done.err
    assert written(tmp_path) == set()


async def test_a_folder_that_is_a_link_to_one_inside_is_written_to(tmp_path: Path):
    (tmp_path / "flows").mkdir()
    (tmp_path / "workflows").symlink_to("flows")
    done = await Console(address="", home=tmp_path).run("init", JACKLINE_TOKEN="")
    assert done.code == 0, done.err
    assert (tmp_path / "flows/assistant.yaml").exists()


async def test_a_place_that_can_not_be_written_is_said(tmp_path: Path):
    (tmp_path / "file").write_text("x", "utf-8")
    done = await Console(address="", home=tmp_path).run("init", "file/proj", JACKLINE_TOKEN="")
    assert done.code == 73
    assert "file/proj" in done.err
