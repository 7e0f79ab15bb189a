"""The `docker` of these tests: the few subcommands that docs/container.md uses, carried out with a sandbox.

    python -m tests.container.engine run --detach --name jackline ... IMAGE serve

Owns what the options of a container mean here; one that it does not know is an error, so that no page can
promise what was not tried. Limits on memory, CPU and processes are read and not enforced; `--init` is read
and not obeyed, which is the harder case: the server is process 1. A published port must be one that the
image exposes, at the same number: the caller's network namespace is the host. A user has no right and can
gain none, with `--cap-drop` and without.

State is in the folder `JACKLINE_TEST_ENGINE`: `image.json`, and a folder for each volume and each container.
"""

import argparse
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.container.image import Image
from tests.container.sandbox import Command, Mount, entering, is_root, joining, prepare_mounts

NAME = "jackline"
STOP_S = 10
HEALTHY_S = 60
_KILLED = 137
_HOSTS = ("127.0.0.1", "[::1]")


@dataclass(slots=True, kw_only=True)
class Options:
    """What a container is run with, wherever it was written: a command line or a compose file."""

    name: str
    words: list[str]
    entrypoint: list[str]
    health: list[str]
    uid: int
    environ: dict[str, str]
    stop_s: int = STOP_S
    read_only: bool = False
    mounts: list[Mount] = field(default_factory=list[Mount])


class Engine:
    """Containers of one image, in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.image = Image.load(folder / "image.json")

    def volume(self, name: str) -> Path:
        """A named volume; a new one takes over what the image has at its place, as an engine does."""
        place = self._folder / "volumes" / name
        if not place.exists():
            place.mkdir(parents=True)
            (target,) = self.image.volumes
            source = Path(self.image.root, target.lstrip("/"))
            shutil.copystat(source, place)
            if is_root():
                os.chown(place, source.stat().st_uid, source.stat().st_gid)
        return place

    def start(self, options: Options) -> "Container":
        """Start a container in the background."""
        container = Container(self._folder / "containers" / options.name)
        container.folder.mkdir(parents=True)
        mounts = options.mounts
        if not any(each.target == target for each in mounts for target in self.image.volumes):
            source = self.volume(f"nameless-{options.name}")
            mounts = [*mounts, Mount(source=source, target=self.image.volumes[0], writable=True)]
        prepare_mounts(Path(self.image.root), mounts)
        command = self._command([*options.entrypoint, *options.words], options, mounts=mounts)
        entered = entering(Path(self.image.root), command)
        with (container.folder / "log").open("wb") as log:
            keeper = subprocess.Popen(
                ["/bin/sh", "-c", '"$@"; echo $? >code', "keeper", *entered],
                cwd=container.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        record = {
            "keeper": keeper.pid,
            "health": options.health,
            "uid": options.uid,
            "environ": command.environ,
            "stop_s": options.stop_s,
        }
        (container.folder / "record.json").write_text(json.dumps(record), encoding="utf-8")
        return container

    def run_to_its_end(self, options: Options) -> int:
        """Run a container in the foreground; its exit code."""
        prepare_mounts(Path(self.image.root), options.mounts)
        command = self._command([*options.entrypoint, *options.words], options, mounts=options.mounts)
        return subprocess.run(entering(Path(self.image.root), command), check=False).returncode

    def container(self, name: str) -> "Container":
        return Container(self._folder / "containers" / name)

    def _command(self, words: list[str], options: Options, *, mounts: list[Mount]) -> Command:
        return Command(
            words=words,
            environ={**self.image.environ, **options.environ},
            folder=self.image.folder,
            uid=options.uid,
            mounts=mounts,
            read_only=options.read_only,
        )


class Container:
    """A container that was started, by its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def log(self) -> str:
        """What it has written so far."""
        return (self.folder / "log").read_text(encoding="utf-8", errors="replace")

    @property
    def code(self) -> int | None:
        """Its exit code; None while it runs."""
        file = self.folder / "code"
        text = file.read_text(encoding="ascii") if file.exists() else ""
        return int(text) if text else None

    def execute(self, words: Sequence[str]) -> int:
        """Run words beside it, as its user; their exit code."""
        record = self._record()
        command = Command(words=words, environ=record["environ"], folder="/", uid=record["uid"])
        pid = self._first_process()
        return subprocess.run(joining(pid, command), check=False).returncode if pid else 1

    def health(self) -> str:
        """What its health check says now."""
        if self.code is not None:
            return "unhealthy"
        words = self._record()["health"]
        return "healthy" if self.execute(["sh", "-c", '"$@" >&2', "health", *words]) == 0 else "starting"

    def is_healthy_in_time(self) -> bool:
        """Ask until it is healthy, has ended, or a minute is over. The check itself waits for the server."""
        until = time.monotonic() + HEALTHY_S
        while self.code is None and time.monotonic() < until:
            if self.health() == "healthy":
                return True
        return False

    def stop(self, signal_name: str) -> int:
        """Ask it to end, and kill it if it has not in time; its exit code."""
        record = self._record()
        pid = self._first_process()
        if self.code is None and pid:
            keeper = os.pidfd_open(record["keeper"])
            os.kill(pid, signal.Signals[signal_name])
            if not _has_ended(keeper, within_s=record["stop_s"]):
                os.kill(pid, signal.SIGKILL)
                assert _has_ended(keeper, within_s=record["stop_s"])
            os.close(keeper)
        return self.code if self.code is not None else _KILLED

    def _record(self) -> dict[str, Any]:
        return json.loads((self.folder / "record.json").read_text(encoding="utf-8"))

    def _first_process(self) -> int:
        """Process 1 of it as this side sees it: two below the keeper; 0 for none."""
        pid = self._record()["keeper"]
        for _ in ("unshare", "process 1"):
            children = Path(f"/proc/{pid}/task/{pid}/children")
            found = children.read_text().split() if children.exists() else []
            if not found:
                return 0
            pid = int(found[0])
        return pid


def options_of_line(engine: Engine, words: Sequence[str]) -> tuple[Options, argparse.Namespace]:
    """The options of `docker run`, and what was written. Exits with 2 for one that is not known."""
    parser = argparse.ArgumentParser(prog="docker run", allow_abbrev=False)
    for flag in ("--detach", "--rm", "--read-only", "--init"):
        parser.add_argument(flag, action="store_true")
    for option in ("--name", "--memory", "--cpus", "--pids-limit", "--entrypoint", "--restart"):
        parser.add_argument(option)
    parser.add_argument("--stop-timeout", type=int, default=STOP_S)
    for option in ("--tmpfs", "--cap-drop", "--security-opt", "--publish", "--volume", "--env"):
        parser.add_argument(option, action="append", default=[])
    parser.add_argument("image", choices=[NAME])
    parser.add_argument("words", nargs=argparse.REMAINDER)
    given = parser.parse_args(words)
    image = engine.image
    _check_ports(image, given.publish)
    written = dict(pair.split("=", 1) for pair in given.env)
    tmpfs = [_tmpfs(text) for text in given.tmpfs]
    return (
        Options(
            name=given.name or "nameless",
            words=given.words or ([] if given.entrypoint else image.command),
            entrypoint=[given.entrypoint] if given.entrypoint else image.entrypoint,
            health=image.health,
            uid=image.uid,
            environ=written,
            stop_s=given.stop_timeout,
            read_only=given.read_only,
            mounts=[*tmpfs, *(_volume(engine, text, Path.cwd()) for text in given.volume)],
        ),
        given,
    )


def options_of_compose(engine: Engine, file: Path) -> Options:
    """The options of the only service of a compose file."""
    document = yaml.safe_load(file.read_text(encoding="utf-8"))
    ((name, service),) = document["services"].items()
    _check_ports(engine.image, service["ports"])
    secrets = [
        Mount(
            source=(file.parent / document["secrets"][secret]["file"]).resolve(),
            target=f"/run/secrets/{secret}",
            writable=False,
        )
        for secret in service["secrets"]
    ]
    kind, *health = service["healthcheck"]["test"]
    assert kind == "CMD"
    return Options(
        name=name,
        words=service["command"],
        entrypoint=engine.image.entrypoint,
        health=health,
        uid=engine.image.uid,
        environ=service.get("environment", {}),
        stop_s=int(service["stop_grace_period"].removesuffix("s")),
        read_only=service["read_only"],
        mounts=[
            *(_tmpfs(text) for text in service["tmpfs"]),
            *(_volume(engine, text, file.parent) for text in service["volumes"]),
            *secrets,
        ],
    )


def _check_ports(image: Image, published: Sequence[str]) -> None:
    for text in published:
        host, outside, inside = text.rsplit(":", 2)
        assert host in _HOSTS, f"{text} is open to the network"
        assert outside == inside
        assert int(inside) in image.ports, text


def _tmpfs(text: str) -> Mount:
    target, _, options = text.partition(":")
    return Mount(source=None, target=target, writable=True, options=options)


def _volume(engine: Engine, text: str, folder: Path) -> Mount:
    source, target, *more = text.split(":")
    assert more in ([], ["ro"]), text
    is_path = source.startswith(("/", "."))
    place = (folder / source).resolve() if is_path else engine.volume(source)
    if is_path and not place.exists():
        raise SystemExit(f"{place} is not there")
    return Mount(source=place, target=target, writable=not more)


def _has_ended(process: int, *, within_s: float) -> bool:
    return bool(select.select([process], [], [], within_s)[0])


def main(words: list[str]) -> int:
    """One call of `docker`; its exit code."""
    engine = Engine(Path(os.environ["JACKLINE_TEST_ENGINE"]))
    match words:
        case ["build", "--tag", "jackline", "."]:
            return 0 if Path("Dockerfile").is_file() else 1  # built already: it is what `image.json` names
        case ["run", *rest]:
            options, given = options_of_line(engine, rest)
            if not given.detach:
                return engine.run_to_its_end(options)
            engine.start(options)
            return 0
        case ["compose", "--file", file, *rest]:
            return _compose(engine, Path(file), rest)
        case [_, *_, name]:
            return _of_container(engine, engine.container(name), words)
        case _:
            raise _unknown(words)


def _of_container(engine: Engine, container: Container, words: list[str]) -> int:
    match words:
        case ["exec", name, *rest]:
            return engine.container(name).execute(rest)
        case ["stop", _]:
            container.stop(engine.image.stop_signal)
        case ["rm", name]:
            assert container.code is not None, f"{name} runs"
            shutil.rmtree(container.folder)
        case ["inspect", "--format", "{{.State.Health.Status}}", _]:
            _say(container.health())
        case ["inspect", "--format", "{{.State.ExitCode}}", _]:
            _say(str(container.code))
        case _:
            raise _unknown(words)
    return 0


def _compose(engine: Engine, file: Path, words: list[str]) -> int:
    options = options_of_compose(engine, file)
    container = engine.container(options.name)
    match words:
        case ["up", "--detach", "--wait"]:
            return 0 if engine.start(options).is_healthy_in_time() else 1
        case ["exec", "-T", name, *rest] if name == options.name:
            return container.execute(rest)
        case ["down"]:
            _say(f"stopped with {container.stop(engine.image.stop_signal)}")
            shutil.rmtree(container.folder)
        case _:
            raise _unknown(["compose", *words])
    return 0


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def _unknown(words: list[str]) -> SystemExit:
    return SystemExit(f"docker {' '.join(words)}: not known here")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
