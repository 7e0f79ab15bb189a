"""The Dockerfile, the compose file and .dockerignore, read."""

import re
import shlex
import shutil
from pathlib import Path, PurePosixPath

import pytest
import yaml

from tests.container.dockerfile import BadDockerfile, context_files, read_ignore, read_stages
from tests.container.engine import Engine, Options, options_of_compose, options_of_line
from tests.container.host import ROOT
from tests.container.image import Image
from tests.container.test_page import blocks

STAGES = read_stages((ROOT / "Dockerfile").read_text(encoding="utf-8"))
RUNTIME = STAGES[-1]
IGNORE = read_ignore((ROOT / ".dockerignore").read_text(encoding="utf-8"))
COMPOSE = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text(encoding="utf-8"))
SERVER = COMPOSE["services"]["server"]
DRAIN_S = 20
MOST_CONTEXT_BYTES = 8 << 20
NOT_BUILT = Image(
    root="/nowhere",
    environ={},
    entrypoint=RUNTIME.only("ENTRYPOINT").words(),
    command=RUNTIME.only("CMD").words(),
    health=["jackline", "health"],
    folder="/",
    uid=10001,
    volumes=RUNTIME.only("VOLUME").words(),
    ports=[int(RUNTIME.only("EXPOSE").text)],
    stop_signal=RUNTIME.only("STOPSIGNAL").text,
)


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    """One whose volume is there already: it is never started."""
    NOT_BUILT.save(tmp_path / "image.json")
    for name in ("data", "jackline-data"):
        (tmp_path / "volumes" / name).mkdir(parents=True)
    return Engine(tmp_path)


# --- Dockerfile ------------------------------------------------------------------------------


def test_each_stage_has_a_base_with_a_version() -> None:
    assert all(re.fullmatch(r"[a-z]+:[\w.-]*\d[\w.-]*", stage.base) for stage in STAGES)


def test_whatever_is_installed_is_installed_by_hash_or_made_here() -> None:
    runs = [each.text for stage in STAGES for each in stage.instructions if each.name == "RUN"]
    installs = [
        command
        for text in runs
        for command in text.split("&&")
        if re.search(r"\b(pip install|pip sync|uv build|apt-get|curl|wget|npm)\b", command)
    ]
    assert len(installs) == len(["uv", "the lock", "the wheel", "Jackline"])
    assert [each for each in installs if "--require-hashes" not in each and "--no-index" not in each] == []


def test_the_runtime_has_one_user_without_rights_who_owns_the_volume_alone() -> None:
    user = RUNTIME.only("USER").text
    assert user == "10001:10001"
    owned = [each for each in RUNTIME.instructions if each.name == "COPY" and "chown" in each.flags]
    assert [(each.flags["chown"], each.text.split()[-1]) for each in owned] == [(user, "/var/lib/jackline")]


def test_signals_reach_the_server_since_no_shell_stands_between() -> None:
    assert RUNTIME.only("ENTRYPOINT").words() == ["jackline"]
    assert RUNTIME.only("STOPSIGNAL").text == "SIGTERM"


def test_the_image_does_not_vouch_for_the_network_in_the_place_of_its_operator() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert "INSECURE_BIND" not in text
    assert RUNTIME.only("CMD").words() == ["serve"]


@pytest.mark.parametrize(
    "text",
    [
        "FROM a:1",
        "RUN first",
        "FROM a:1 AS b\nADD x y",
        "FROM a:1 AS b\nCOPY --link x y",
        "FROM a:1 AS b\nRUN x \\",
    ],
)
def test_what_the_reader_of_dockerfiles_does_not_know_it_refuses(text: str) -> None:
    with pytest.raises((BadDockerfile, ValueError)):
        read_stages(text)


# --- .dockerignore ---------------------------------------------------------------------------


def test_the_context_holds_what_is_copied_and_nothing_private(tmp_path: Path) -> None:
    kept = [
        "pyproject.toml",
        "LICENSE",
        "server/jackline_server/core/ids.py",
        "client/python/a.py",
        "proto/b.proto",
    ]
    left_out = [
        ".git/config",
        ".venv/bin/python",
        ".env",
        "server/.env.local",
        "data/jackline.db",
        "deploy/secrets/model_key",
        "server/tokens/a.token",
        "server/jackline_server/__pycache__/a.pyc",
        "client/go/main.go",
        "client/typescript/node_modules/a/index.js",
        "tests/a.py",
        "requirements/notes.md",
        ".jackline/tools/grpcurl",
    ]
    for name in [*kept, *left_out]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert context_files(tmp_path, IGNORE) == sorted(PurePosixPath(name) for name in kept)


def test_the_context_of_this_tree_is_small() -> None:
    files = context_files(ROOT, IGNORE)
    assert PurePosixPath("server/jackline_server/serving.py") in files
    assert sum((ROOT / path).stat().st_size for path in files) < MOST_CONTEXT_BYTES


# --- compose ---------------------------------------------------------------------------------


def test_compose_shuts_the_container_in() -> None:
    assert SERVER["read_only"] is True
    assert SERVER["cap_drop"] == ["ALL"]
    assert SERVER["security_opt"] == ["no-new-privileges:true"]
    assert [text.partition(":")[0] for text in SERVER["tmpfs"]] == ["/tmp"]  # noqa: S108 - in the container
    assert {"user", "privileged", "cap_add", "network_mode", "pid", "devices"} & set(SERVER) == set()
    assert {"mem_limit", "pids_limit", "cpus"} <= set(SERVER)


def test_compose_publishes_on_the_loopback_alone() -> None:
    assert SERVER["ports"] == ["127.0.0.1:50051:50051"]


def test_compose_keeps_the_data_on_a_named_volume_and_the_secret_in_a_file() -> None:
    assert "data:/var/lib/jackline" in SERVER["volumes"]
    assert COMPOSE["volumes"] == {"data": None}
    assert all(set(secret) == {"file"} for secret in COMPOSE["secrets"].values())
    assert "environment" not in SERVER


def test_compose_asks_for_health_as_the_image_does() -> None:
    kind, _, words = RUNTIME.only("HEALTHCHECK").text.partition(" ")
    check = SERVER["healthcheck"]
    assert f"{kind} {words}" == 'CMD ["jackline", "health"]'
    assert check["test"] == ["CMD", "jackline", "health"]
    flags = {name.replace("_", "-"): str(value) for name, value in check.items() if name != "test"}
    assert flags == dict(RUNTIME.only("HEALTHCHECK").flags)


def test_compose_gives_the_server_more_time_than_a_drain_takes() -> None:
    assert int(SERVER["stop_grace_period"].removesuffix("s")) > DRAIN_S


def test_compose_and_the_page_start_the_same_container(engine: Engine, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    shutil.copytree(ROOT / "deploy", clone / "deploy", ignore=shutil.ignore_patterns("secrets"))
    (clone / "deploy" / "secrets").mkdir()
    (clone / "deploy" / "secrets" / "model_key").touch()
    (_, _, *words) = shlex.split(blocks()["run"].replace("\\\n", " ").replace("$PWD", str(clone)))
    by_hand, given = options_of_line(engine, words)
    composed = options_of_compose(engine, clone / "deploy" / "compose.yaml")
    assert shape(by_hand) == shape(composed)
    assert given.memory == SERVER["mem_limit"]
    assert float(given.cpus) == SERVER["cpus"]
    assert int(given.pids_limit) == SERVER["pids_limit"]
    assert given.restart == SERVER["restart"]
    assert given.cap_drop == SERVER["cap_drop"]
    assert given.publish == SERVER["ports"]


def shape(options: Options) -> object:
    """All that matters but the names of the container and of its volume."""
    mounts = {
        each.target: (
            each.writable,
            each.options,
            each.source if "volumes" not in str(each.source) else "volume",
        )
        for each in options.mounts
    }
    return options.words, options.entrypoint, options.read_only, options.stop_s, options.uid, mounts
