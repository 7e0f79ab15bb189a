"""A root folder with a command in it, by Linux namespaces: what a container is, without its engine.

Owns making such a root from this machine's own system folders, and the mounts, the user and the limits of one
command. Does not own what is put into a root (`image`) or which options a container has (`engine`).

It works for root and, where the kernel lets everybody make user namespaces, for anybody: then one user of
this machine plays every user in the sandbox. `can_make_one` says whether it works here.
"""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PYTHON_FOLDER = "image"
"""Where a root has `python`, on the PATH that stands for the base image's."""

BASE_PATH = f"/{PYTHON_FOLDER}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SYSTEM = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc/ssl", "etc/alternatives")
_COPIED = ("resolv.conf", "hosts", "nsswitch.conf", "ld.so.cache", "ld.so.conf", "login.defs", "pip.conf")
_MADE = ("dev", "etc", "opt", "proc", "root", "run", "tmp", "var/lib", "var/log", "var/tmp")
_PASSWD = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
_GROUP = "root:x:0:\nnogroup:x:65534:\n"
_PROBE_S = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A folder or file of this machine at a place in the root; without a source, an empty tmpfs."""

    source: Path | None
    target: str
    writable: bool
    options: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What to run in a root. `uid` of None is the root user with all of its rights, as a build has."""

    words: Sequence[str]
    environ: Mapping[str, str]
    folder: str
    uid: int | None = None
    mounts: Sequence[Mount] = ()
    read_only: bool = False


@cache
def can_make_one() -> bool:
    """True if this machine lets this user make namespaces, and has the tools for it."""
    if not all(
        shutil.which(tool, path=_host_path()) for tool in ("unshare", "nsenter", "setpriv", "pivot_root")
    ):
        return False
    probe = [*_unshare(), "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return subprocess.run(probe, capture_output=True, timeout=_PROBE_S, check=False).returncode == 0


def network_of_its_own(words: Sequence[str]) -> list[str]:
    """The words of a command that runs with nothing but a loopback, where every port is free."""
    up = "import fcntl, socket, struct; s = socket.socket(); "
    up += "fcntl.ioctl(s, 0x8914, struct.pack('16sh', b'lo', 0x41))"  # SIOCSIFFLAGS: up, running
    script = f"{shlex.join([sys.executable, '-c', up])} && exec {shlex.join(words)}"
    return [*_unshare("--net"), "sh", "-euc", script]


def make_root(root: Path) -> None:
    """Make what a base image with Python brings. System folders are mounted when a command runs."""
    for name in _MADE:
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "tmp").chmod(0o1777)
    for name in _SYSTEM:
        host = Path("/", name)
        if host.is_symlink():
            (root / name).symlink_to(host.readlink())
        elif host.is_dir():
            (root / name).mkdir(parents=True)
    for name in _COPIED:
        if (host := Path("/etc", name)).is_file():
            shutil.copyfile(host, root / "etc" / name)
    (root / "etc/passwd").write_text(_PASSWD, encoding="utf-8")
    (root / "etc/group").write_text(_GROUP, encoding="utf-8")
    (root / _python_home()).mkdir(parents=True, exist_ok=True)
    programs = root / PYTHON_FOLDER / "bin"
    programs.mkdir(parents=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for name in ("python", "python3"):
        (programs / name).symlink_to(Path(sys.base_prefix, "bin", version))


def entering(root: Path, command: Command) -> list[str]:
    """The words that run a command in a root; it is process 1 of its own process namespace.

    Its host process is the only child of the one that these words start, and dies with it.
    """
    words = [*(_as_user(command.uid) if command.uid is not None else ()), *command.words]
    environ = [f"{name}={value}" for name, value in command.environ.items()]
    lines = [
        f"mount --bind {shlex.quote(str(root))} {shlex.quote(str(root))}",
        f"cd {shlex.quote(str(root))}",
    ]
    lines += [_bind(Mount(source=Path("/", name), target=name, writable=False)) for name in _mounted(root)]
    lines += ["mount --rbind /dev dev", "mount -t proc proc proc"]
    if command.read_only:
        lines += ["mount -o remount,bind,ro ."]
    lines += [_bind(each) for each in command.mounts]
    lines += ["pivot_root . .", "umount -l ."]
    lines += [f"cd {shlex.quote(command.folder)}", f"exec env -i {shlex.join([*environ, *words])}"]
    return [*_unshare("--pid", "--fork", "--kill-child"), "sh", "-euc", "\n".join(lines)]


def joining(pid: int, command: Command) -> list[str]:
    """The words that run a command beside process 1 of a root, which is `pid` on this machine."""
    words = [*(_as_user(command.uid) if command.uid is not None else ()), *command.words]
    environ = [f"{name}={value}" for name, value in command.environ.items()]
    inside = f"cd {shlex.quote(command.folder)} && exec env -i {shlex.join([*environ, *words])}"
    return ["nsenter", f"--target={pid}", "--mount", "--pid", "sh", "-euc", inside]


def prepare_mounts(root: Path, mounts: Sequence[Mount]) -> None:
    """Make the places in the root that something is mounted on, as an engine does."""
    for each in mounts:
        place = root / each.target.lstrip("/")
        if each.source is None or each.source.is_dir():
            place.mkdir(parents=True, exist_ok=True)
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.touch()


def is_root() -> bool:
    """True if this user may change the owner of files."""
    return os.geteuid() == 0 and Path("/proc/self/uid_map").read_text().split()[2] != "1"


def _unshare(*more: str) -> list[str]:
    as_root = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare", *as_root, "--mount", "--propagation", "private", *more]


def _as_user(uid: int) -> list[str]:
    powerless = ["--no-new-privs", "--inh-caps=-all"]
    if is_root():
        become = [f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--bounding-set=-all"]
        return ["setpriv", *become, *powerless]
    return ["unshare", "--user", f"--map-user={uid}", f"--map-group={uid}", "setpriv", *powerless]


def _mounted(root: Path) -> list[str]:
    system = [name for name in _SYSTEM if (root / name).is_dir() and not (root / name).is_symlink()]
    home = _python_home()
    return system if home.startswith("usr/") else [*system, home]


def _python_home() -> str:
    return sys.base_prefix.lstrip("/")


def _bind(mount: Mount) -> str:
    target = shlex.quote(f"./{mount.target.lstrip('/')}")
    if mount.source is None:
        return f"mount -t tmpfs -o {shlex.quote(mount.options or 'mode=1777')} tmpfs {target}"
    bound = f"mount --bind {shlex.quote(str(mount.source))} {target}"
    return bound if mount.writable else f"{bound}\nmount -o remount,bind,ro {target}"


def _host_path() -> str:
    return f"{os.environ.get('PATH', '')}{os.pathsep}/usr/sbin{os.pathsep}/sbin"
