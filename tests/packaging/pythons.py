"""The Pythons of this machine that the project says it runs on, one of each version.

Owns where they are looked for: this one, the `PATH`, and where pyenv and uv keep theirs. Does not own what is
expected of them.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

VERSIONS = tuple(f"3.{minor}" for minor in range(11, 20))
_ASK_S = 30
_TELL = (
    "import sys, sysconfig; free = sysconfig.get_config_var('Py_GIL_DISABLED');"
    "final = sys.version_info.releaselevel == 'final' and sys.implementation.name == 'cpython' and not free;"
    "print('%d.%d' % sys.version_info[:2] if final else '')"
)


def found_pythons() -> dict[str, Path]:
    """One interpreter for each version, in the order of the versions; this one always among them.

    What is there and can't be started (a shim for a version that is switched off), is a pre-release, or is no
    CPython with its lock, does not count.
    """
    present = f"3.{sys.version_info.minor}"
    found: dict[str, Path] = {}
    for version in VERSIONS:
        usable = (path for path in _candidates(version) if _version_of(path) == version)
        python = Path(sys.executable) if version == present else next(usable, None)
        if python is not None:
            found[version] = python
    return found


def _candidates(version: str) -> Iterator[Path]:
    homes = (
        Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions",
        Path(os.environ.get("XDG_DATA_HOME", Path.home() / ".local" / "share")) / "uv" / "python",
    )
    for home in homes:
        yield from sorted(home.glob(f"*/bin/python{version}"))
    if on_path := shutil.which(f"python{version}"):
        yield Path(on_path)


def _version_of(python: Path) -> str:
    try:
        told = subprocess.run(
            [python, "-I", "-S", "-c", _TELL],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_ASK_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return told.stdout.strip()
