"""`jackline context`, and which server and token a command takes."""

import asyncio
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jackline.v1 import run_service_pb2 as wire
from jackline.v1.run_pb2 import Interrupt
from jackline_client.cli.context_file import (
    Context,
    ContextError,
    Contexts,
    contexts_path,
    read_contexts,
    write_contexts,
)
from jackline_client.cli.server_choice import Named
from jackline_client.credentials import read_token_file
from jackline_client.errors import AddressError, CredentialError
from tests.cli.console import Console
from tests.support.scripted_service import TOKEN, ScriptedService

SECRET = "a-secret-that-is-never-shown"


def path_in(console: Console) -> Path:
    return console.home / ".config/jackline/contexts.toml"


# --- the commands ------------------------------------------------------------------------------


async def test_a_context_is_set_used_shown_changed_and_removed(console: Console) -> None:
    made = await console.run("context", "set", "prod", "--address", "prod:1", "--token-env", "PROD_TOKEN")
    assert (made.code, made.err) == (0, "")
    await console.run("context", "set", "dev", "--address", "127.0.0.1:2", "--use")
    listed = await console.run("context", "ls", "-o", "json")
    assert [json.loads(line) for line in listed.out.splitlines()] == [
        {"name": "dev", "address": "127.0.0.1:2", "current": True},
        {"name": "prod", "address": "prod:1", "token": "the variable PROD_TOKEN", "current": False},
    ]
    assert (await console.run("context", "use", "prod", JACKLINE_ADDRESS="")).err == ""
    await console.run("context", "set", "prod", "--address", "prod:3")
    shown = await console.run("context", "show", "-o", "json", JACKLINE_ADDRESS="", PROD_TOKEN=SECRET)
    assert json.loads(shown.out)["address"] == "prod:3"
    assert json.loads(shown.out)["source"] == "the current context"
    assert read_contexts(path_in(console)).by_name["prod"].token_env == "PROD_TOKEN"
    await console.run("context", "set", "prod", "--no-token")
    assert read_contexts(path_in(console)).by_name["prod"].token_env == ""
    assert (await console.run("context", "rm", "prod")).code == 0
    left = read_contexts(path_in(console))
    assert (set(left.by_name), left.current) == ({"dev"}, "")


async def test_a_token_file_that_is_not_there_yet_is_warned_of(console: Console) -> None:
    words = ("context", "set", "dev", "--address", "127.0.0.1:2", "--token-file", "missing")
    done = await console.run(*words)
    assert done.code == 0
    assert "missing" in done.err
    assert read_contexts(path_in(console)).by_name["dev"].token_file.endswith("missing")


async def test_using_a_context_warns_of_what_wins_over_it(console: Console) -> None:
    await console.run("context", "set", "dev", "--address", "127.0.0.1:2")
    assert "JACKLINE_ADDRESS" in (await console.run("context", "use", "dev")).err


@pytest.mark.parametrize(
    "words",
    [
        ("use", "nowhere"),
        ("rm", "nowhere"),
        ("show", "nowhere"),
        ("set", "new"),
        ("set", "../up", "--address", "h:1"),
        ("set", "new", "--address", "h"),
        ("set", "new", "--address", "h:1", "--token-env", "A=B"),
        ("set", "new", "--address", "h:1", "--token-env", "A", "--token-file", "f"),
    ],
    ids=" ".join,
)
async def test_words_about_contexts_that_can_not_be_are_exit_2_and_change_nothing(
    console: Console, words: tuple[str, ...]
) -> None:
    done = await console.run("context", *words)
    assert (done.code, done.out) == (2, "")
    assert not path_in(console).exists()


async def test_a_token_is_neither_kept_nor_shown(console: Console) -> None:
    (console.home / "t").write_text(f"{SECRET}\n")
    (console.home / "t").chmod(0o600)
    said = [
        await console.run("context", *words, JACKLINE_ADDRESS="", JACKLINE_TOKEN="")
        for words in (
            ("set", "a", "--address", "h:1", "--token-file", "t", "--use"),
            ("ls", "-o", "wide"),
            ("show",),
            ("show", "a"),
            ("show", "-o", "yaml"),
        )
    ]
    assert {done.code for done in said} == {0}
    assert SECRET not in "".join(done.out + done.err for done in said) + path_in(console).read_text()
    assert str(console.home / "t") in said[1].out
    assert "found" in said[2].out


async def test_the_file_is_private_whatever_the_umask(console: Console) -> None:
    done = await console.shell("umask 0; $JACKLINE context set a --address h:1")
    assert done.code == 0
    assert stat.S_IMODE(path_in(console).stat().st_mode) == 0o600
    assert list(path_in(console).parent.iterdir()) == [path_in(console)]


async def test_a_damaged_file_is_said_to_be_so_with_its_place(console: Console) -> None:
    await console.run("context", "set", "a", "--address", "h:1")
    path_in(console).write_text('[contexts.a]\naddress = "h:1\n')
    done = await console.run("context", "ls")
    assert done.code == 2
    assert f"{path_in(console)}:2:" in done.err
    # What needs no context is not stopped by it.
    assert (await console.run("context", "show", "--address", "h:1")).code == 2
    assert (await console.run("token", "print")).out == f"{TOKEN}\n"


async def test_commands_to_type_name_the_context_again(console: Console, service: ScriptedService) -> None:
    await console.run("context", "set", "here", "--address", console.address)
    asked = Interrupt(run_id="run_1", interrupt_id="int_1", options=["yes"])
    service.script("ListInterrupts", wire.ListInterruptsResponse(interrupts=[asked]))
    done = await console.run("inbox", "--context", "here", JACKLINE_ADDRESS="127.0.0.1:1")
    assert " yes --context here\n" in done.out


@pytest.mark.parametrize("words", [("--context", "here", "ls"), ("ls", "--context", "here")])
async def test_a_context_may_stand_before_the_command_or_after_it(
    console: Console, service: ScriptedService, words: tuple[str, ...]
) -> None:
    await console.run("context", "set", "here", "--address", console.address)
    service.script("ListRuns", wire.ListRunsResponse())
    assert (await console.run(*words, JACKLINE_ADDRESS="127.0.0.1:1")).code == 0


async def test_a_context_before_a_command_that_talks_to_no_server_is_exit_2(console: Console) -> None:
    assert (await console.run("--context", "here", "serve")).code == 2


async def test_a_context_brings_its_own_token(console: Console, service: ScriptedService) -> None:
    service.script("ListRuns", wire.ListRunsResponse())
    words = ("--address", console.address, "--token-env", "MINE", "--use")
    await console.run("context", "set", "here", *words)
    done = await console.run("ls", JACKLINE_ADDRESS="", JACKLINE_TOKEN="", MINE=TOKEN)
    assert (done.code, done.out) == (0, "no runs\n")


# --- the order ---------------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_text("of-the-file\n")
    (tmp_path / "secret").chmod(0o600)
    contexts = [
        Context(name="flagged", address="flagged:1", token_file=str(tmp_path / "secret")),
        Context(name="variable", address="variable:1", token_env="OTHER"),
        Context(name="current", address="current:1", token_env="MINE"),
        Context(name="plain", address="plain:1"),
    ]
    write_contexts(
        tmp_path / "contexts.toml",
        Contexts(by_name={one.name: one for one in contexts}, current="current"),
    )
    return tmp_path


def environment(home: Path, *names: str) -> Mapping[str, str]:
    values = {
        "JACKLINE_ADDRESS": "variable-address:1",
        "JACKLINE_CONTEXT": "variable",
        "JACKLINE_TOKEN": "of-the-environment",
    }
    return {
        "JACKLINE_CONFIG_HOME": str(home),
        "JACKLINE_STATE_DIR": str(home / "state"),
        "MINE": "of-mine",
        "OTHER": "of-other",
        **{name: values[name] for name in names},
    }


EVERYTHING = ("JACKLINE_ADDRESS", "JACKLINE_CONTEXT", "JACKLINE_TOKEN")


@pytest.mark.parametrize(
    ("named", "variables", "address", "token"),
    [
        (Named(address="flag:1"), EVERYTHING, "flag:1", "of-the-environment"),
        (Named(address="flag:1"), (), "flag:1", None),
        (Named(context="flagged"), EVERYTHING, "flagged:1", "of-the-file"),
        (Named(context="plain"), EVERYTHING, "plain:1", "of-the-environment"),
        (Named(), EVERYTHING, "variable-address:1", "of-the-environment"),
        (Named(), ("JACKLINE_ADDRESS",), "variable-address:1", None),
        (Named(), ("JACKLINE_CONTEXT", "JACKLINE_TOKEN"), "variable:1", "of-the-environment"),
        (Named(), ("JACKLINE_CONTEXT",), "variable:1", "of-other"),
        (Named(), ("JACKLINE_TOKEN",), "current:1", "of-the-environment"),
        (Named(), (), "current:1", "of-mine"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_flags_win_over_the_environment_and_that_over_the_current_context(
    home: Path, named: Named, variables: tuple[str, ...], address: str, token: str | None
) -> None:
    environ = environment(home, *variables)
    chosen = named.choose(environ=environ)
    assert (chosen.address, chosen.token(environ=environ)) == (address, token)


def test_without_anything_it_is_the_default(tmp_path: Path) -> None:
    assert Named().choose(environ={"JACKLINE_CONFIG_HOME": str(tmp_path)}).address == "127.0.0.1:50051"


def test_a_token_that_a_context_names_and_is_not_there_is_an_error_and_no_other_is_taken(home: Path) -> None:
    environ = {**environment(home), "MINE": ""}
    with pytest.raises(CredentialError):
        Named().choose(environ=environ).token(environ=environ)
    (home / "secret").unlink()
    with pytest.raises(CredentialError):
        Named(context="flagged").choose(environ=environ).token(environ=environ)


def test_an_address_and_a_context_are_two_servers(home: Path) -> None:
    with pytest.raises(ContextError):
        Named(address="h:1", context="plain").choose(environ=environment(home))


def test_a_name_that_no_context_has_is_an_error_wherever_it_stands(home: Path) -> None:
    with pytest.raises(ContextError):
        Named(context="nobody").choose(environ=environment(home))
    with pytest.raises(ContextError):
        Named().choose(environ={**environment(home), "JACKLINE_CONTEXT": "nobody"})


@pytest.mark.parametrize(
    ("environ", "path"),
    [
        ({"JACKLINE_CONFIG_HOME": "/a", "XDG_CONFIG_HOME": "/b", "HOME": "/c"}, "/a/contexts.toml"),
        ({"XDG_CONFIG_HOME": "/b", "HOME": "/c"}, "/b/jackline/contexts.toml"),
        ({"HOME": "/c"}, "/c/.config/jackline/contexts.toml"),
    ],
    ids=["own", "shared", "home"],
)
def test_the_file_is_where_configs_are(environ: Mapping[str, str], path: str) -> None:
    assert contexts_path(environ) == Path(path)


# --- the file ----------------------------------------------------------------------------------


@settings(deadline=None)
@given(
    st.dictionaries(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True), st.text(), max_size=4)
)
def test_what_is_written_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, files: Mapping[str, str]
) -> None:
    path = tmp_path_factory.mktemp("contexts") / "contexts.toml"
    contexts = Contexts(
        by_name={
            name: Context(
                name=name,
                address="h:1",
                token_file="/" + file.replace("\0", "").encode("utf-8", "replace").decode(),
            )
            for name, file in files.items()
        },
        current=next(iter(files), ""),
    )
    write_contexts(path, contexts)
    assert read_contexts(path) == contexts


@pytest.mark.parametrize(
    "text",
    [
        "current = 1",
        'current = "a"',
        "bogus = 1",
        "contexts = 1",
        "contexts.a = 1",
        'contexts.a.bogus = "x"',
        "contexts.a.address = 1",
        'contexts.a.address = "h"',
        'contexts."../a".address = "h:1"',
        'contexts.a = {address = "h:1", token_env = "A", token_file = "/b"}',
        'contexts.a = {address = "h:1", token_env = "A B"}',
        "contexts.a = {}",
        'contexts.a = {address = "h:1", token_file = "../b"}',
        'contexts.a = {address = "h:1", token_file = "/a\\u0000b"}',
        'contexts.a = {address = "h:1", token_file = "\\u0000/b"}',
        "current = " + "9" * 5_000,
        "x = " + "[" * 3_000 + "]" * 3_000,
        "[",
        "\udcff",
        "#" * 1_100_000,
    ],
    ids=lambda text: repr(text[:40]),
)
def test_a_file_that_says_something_else_is_refused_whole_with_its_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "contexts.toml"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    path.chmod(0o600)
    with pytest.raises(AddressError, match=str(path)):
        read_contexts(path)


@pytest.mark.parametrize("instead", ["pipe", "device", "folder"])
async def test_what_is_no_file_is_refused_and_not_waited_for(console: Console, instead: str) -> None:
    path = path_in(console)
    path.parent.mkdir(parents=True)
    match instead:
        case "pipe":
            os.mkfifo(path, 0o600)
        case "device":
            path.symlink_to("/dev/zero")
        case _:
            path.mkdir()
    async with asyncio.timeout(20):
        done = await console.run("context", "ls")
    assert (done.code, str(path) in done.err, "Traceback" in done.err) == (2, True, False)


@pytest.mark.parametrize("instead", ["pipe", "device", "folder", "nul"])
def test_a_token_file_that_is_no_file_is_an_error_and_not_waited_for(tmp_path: Path, instead: str) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    path = {"device": Path("/dev/zero"), "folder": tmp_path, "nul": tmp_path / "a\0b"}.get(
        instead, tmp_path / instead
    )
    with pytest.raises(CredentialError):
        read_token_file(path, named_by="a test")


def test_a_file_that_others_can_change_is_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "contexts.toml"
    path.write_text("")
    path.chmod(0o622)
    with pytest.raises(ContextError):
        read_contexts(path)


def test_a_file_that_can_not_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "there" / "contexts.toml"
    path.parent.write_text("a file in the way")
    with pytest.raises(ContextError):
        write_contexts(path, Contexts())
    assert path.parent.read_text() == "a file in the way"
