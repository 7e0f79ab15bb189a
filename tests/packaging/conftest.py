"""Wheel and sdist, and the environments with them, each made once for all processes that share the tests."""

import fcntl
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.packaging.environments import ROOT, Built, Environment, build, built_in, make_environment


def _made_once(folder: Path, make: Callable[[Path], None]) -> Path:
    folder.parent.mkdir(parents=True, exist_ok=True)
    done = folder.with_name(f"{folder.name}.done")
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            make(folder)
            done.touch()
    return folder


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A folder of the session that all processes see."""
    base = tmp_path_factory.getbasetemp()
    return (base if worker_id == "master" else base.parent) / "packaging"


@pytest.fixture(scope="session")
def built(shared: Path) -> Built:
    """What is published, from this tree."""
    return built_in(_made_once(shared / "built", build))


@pytest.fixture(scope="session")
def plain(shared: Path, built: Built) -> Environment:
    """`pip install jackline`, at the versions of the lock file."""

    def make(folder: Path) -> None:
        lock = ROOT / "requirements" / "server.txt"
        make_environment(folder).install("--constraint", lock, built.wheel)

    return Environment(folder=_made_once(shared / "plain", make))


@pytest.fixture(scope="session")
def server_on(shared: Path, built: Built) -> Callable[[str, Path], Environment]:
    """`pip install jackline[server]` as a deployment does it, on a Python of that version that stands there.

    The lock file by hash, then the wheel alone.
    """

    def server_on(version: str, python: Path) -> Environment:
        def make(folder: Path) -> None:
            environment = make_environment(folder, python=python)
            environment.install(
                "--require-hashes",
                "--no-deps",
                "--only-binary",
                ":all:",
                "-r",
                ROOT / "requirements" / "server.txt",
            )
            environment.install("--no-index", "--no-deps", built.wheel)

        return Environment(folder=_made_once(shared / f"server-{version}", make))

    return server_on


@pytest.fixture(scope="session")
def server(server_on: Callable[[str, Path], Environment]) -> Environment:
    """The same on the Python that runs the tests."""
    return server_on(f"3.{sys.version_info.minor}", Path(sys.executable))
