"""Builds the image that the Dockerfile describes, stage by stage, each in a root folder of its own.

Owns what RUN, COPY and the settings of an image do. A RUN really runs, as root of a sandbox, with the
variables that the Dockerfile sets and those by which this machine reaches its package registry, and nothing
else of this machine's environment. A cache mount is the cache of this user. Does not own running the image.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.container.dockerfile import Instruction, Stage, context_files, expanded, read_ignore, read_stages
from tests.container.sandbox import BASE_PATH, Command, Mount, entering, is_root, make_root, prepare_mounts

BUILD_S = 600
_REGISTRY = re.compile(
    r"(PIP|UV)_\w*(INDEX|URL|CERT|PROXY|TIMEOUT|LINKS|TRUSTED)\w*|SSL_CERT_\w+|\w+_(proxy|PROXY)"
)


class BuildFailed(AssertionError):
    """A RUN ended with another code than 0. The message holds what it wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """What a build leaves: a root folder, and how a container of it starts, is asked and is stopped."""

    root: str
    environ: dict[str, str]
    entrypoint: list[str]
    command: list[str]
    health: list[str]
    folder: str
    uid: int
    volumes: list[str]
    ports: list[int]
    stop_signal: str

    def save(self, file: Path) -> None:
        file.write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def load(cls, file: Path) -> "Image":
        return cls(**json.loads(file.read_text(encoding="utf-8")))


def build(context: Path, folder: Path) -> Image:
    """Build the image of a context into a folder. Raises BuildFailed."""
    stages = read_stages((context / "Dockerfile").read_text(encoding="utf-8"))
    roots: dict[str, Path] = {}
    last = _Build(stage=stages[0], context=context, roots=roots)
    for stage in stages:
        roots[stage.name] = folder / stage.name
        last = _Build(stage=stage, context=context, roots=roots)
        last.carry_out()
    return last.image()


class _Build:
    """One stage on its way."""

    def __init__(self, *, stage: Stage, context: Path, roots: Mapping[str, Path]) -> None:
        self._stage = stage
        self._context = context
        self._roots = roots
        self._root = roots.get(stage.name, Path())
        self._environ = {"PATH": BASE_PATH}
        self._folder = "/"

    def carry_out(self) -> None:
        self._root.mkdir(parents=True)
        make_root(self._root)
        for each in self._stage.instructions:
            match each.name:
                case "ENV":
                    self._environ |= each.pairs(self._environ)
                case "WORKDIR":
                    self._folder = str(Path(self._folder, each.text))
                    self._inside(self._folder).mkdir(parents=True, exist_ok=True)
                case "COPY":
                    self._copy(each)
                case "RUN":
                    self._run(each)
                case _:
                    pass  # what `image` reads

    def image(self) -> Image:
        stage = self._stage
        uid, _, gid = stage.only("USER").text.partition(":")
        assert uid == gid
        kind, _, health = stage.only("HEALTHCHECK").text.partition(" ")
        assert kind == "CMD"
        return Image(
            root=str(self._root),
            environ=self._environ,
            entrypoint=stage.only("ENTRYPOINT").words(),
            command=stage.only("CMD").words(),
            health=json.loads(health),
            folder=self._folder,
            uid=int(uid),
            volumes=stage.only("VOLUME").words(),
            ports=[int(port) for port in stage.only("EXPOSE").text.split()],
            stop_signal=stage.only("STOPSIGNAL").text,
        )

    def _inside(self, path: str) -> Path:
        return self._root / path.lstrip("/")

    def _run(self, each: Instruction) -> None:
        mounts = _cache_mounts(each)
        prepare_mounts(self._root, mounts)
        reach = {name: value for name, value in os.environ.items() if _REGISTRY.fullmatch(name)}
        command = Command(
            words=["/bin/sh", "-c", each.text],
            environ={"HOME": "/root", **reach, **self._environ},
            folder=self._folder,
            mounts=mounts,
        )
        done = subprocess.run(
            entering(self._root, command), capture_output=True, text=True, timeout=BUILD_S, check=False
        )
        if done.returncode != 0:
            raise BuildFailed(f"line {each.line} ended with {done.returncode}:\n{done.stdout}{done.stderr}")

    def _copy(self, each: Instruction) -> None:
        *sources, target = expanded(each.text, self._environ).split()
        place = self._inside(str(Path(self._folder, target)))
        into_folder = target.endswith("/") or len(sources) > 1
        for source in sources:
            if stage := each.flags.get("from"):
                _copy_tree(self._roots[stage] / source.lstrip("/"), place)
            else:
                self._copy_context(source, place, into_folder=into_folder)
        if (owner := each.flags.get("chown")) and is_root():
            subprocess.run(["/bin/chown", "-R", owner, str(place)], check=True)

    def _copy_context(self, source: str, place: Path, *, into_folder: bool) -> None:
        """A file under its name or the target's; of a folder, what is in it. There has to be something."""
        files = context_files(
            self._context, read_ignore((self._context / ".dockerignore").read_text("utf-8"))
        )
        name = Path(source)
        found = [path for path in files if Path(path) == name or name in Path(path).parents]
        assert found, f"COPY {source}: not in the context"
        for path in found:
            below = Path(path).relative_to(name)
            target = place / below if below != Path() else place / name.name if into_folder else place
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(self._context / path, target)


def _cache_mounts(each: Instruction) -> list[Mount]:
    if "mount" not in each.flags:
        return []
    options = dict(option.split("=", 1) for option in each.flags["mount"].split(","))
    assert options.pop("type") == "cache"
    target = options.pop("target")
    assert not options
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    source = Path(os.environ.get("UV_CACHE_DIR", home / "uv") if target.endswith("/uv") else home / "pip")
    source.mkdir(parents=True, exist_ok=True)
    return [Mount(source=source, target=target, writable=True)]


def _copy_tree(source: Path, place: Path) -> None:
    """By hard links: the stage that they come from is over."""
    place.mkdir(parents=True, exist_ok=True)
    shutil.copystat(source, place)
    subprocess.run(["/bin/cp", "--archive", "--link", f"{source}/.", str(place)], check=True)
