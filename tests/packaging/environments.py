"""What is published, and fresh Python environments to install it into.

Owns calling the installer, with this machine's registry and nothing else of its environment. Does not own
what is expected of either.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path

from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
INSTALL_S = 300
COMMAND_S = 60
_UV = Path(sys.executable).with_name("uv")
_SOURCES = (
    "pyproject.toml",
    "README.md",
    "CHANGELOG.md",
    "LICENSE",
    ".gitignore",
    "proto",
    "server",
    "client/python",
)
_REGISTRY = re.compile(r"UV_\w+|SSL_CERT_\w+|\w+_(proxy|PROXY)")
JUNK = (
    "server/jackline_server/__pycache__/junk.cpython-311.pyc",
    "client/python/jackline_client/cli/__pycache__/junk.cpython-311.pyc",
    "server/.pytest_cache/junk",
    "proto/gen/python/jackline/v1/.env",
    "tests/test_junk.py",
    "data/jackline.db",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """The two that are published, the wheel that the sdist makes, and the tree that they were made from."""

    tree: Path
    wheel: Path
    sdist: Path
    wheel_of_sdist: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """A virtual environment, made for one purpose."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def jackline(self) -> Path:
        return self.folder / "bin" / "jackline"

    def install(self, *words: str | Path) -> None:
        """Install what pip's words say."""
        _uv("pip", "install", "--quiet", "--python", self.python, *words)

    def installed(self) -> dict[str, Distribution]:
        """What is installed, by canonical name."""
        (packages,) = self.folder.glob("lib/python3.*/site-packages")
        return {
            canonicalize_name(each.metadata["Name"]): each for each in distributions(path=[str(packages)])
        }

    def environ(self, home: Path, **more: str) -> dict[str, str]:
        """An environment that knows of nothing but a home."""
        return {"PATH": os.defpath, "HOME": str(home), "LANG": "C.UTF-8", **more}

    def call(
        self, *words: str, home: Path, environ: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Call its `jackline` to the end."""
        return subprocess.run(
            [str(self.jackline), *words],
            cwd=home,
            env={**self.environ(home), **(environ or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
            check=False,
        )


def build(folder: Path) -> None:
    """Build wheel and sdist into a folder, where `built_in` finds them, from a copy of the tree.

    In the copy things lie about that belong into neither.
    """
    tree = folder / "tree"
    for name in _SOURCES:
        source, target = ROOT / name, tree / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", ".pytest_cache"))
        else:
            shutil.copy2(source, target)
    for name in JUNK:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text("junk", encoding="utf-8")
    by_hash = ("--require-hashes", "--build-constraints", ROOT / "requirements" / "build.txt")
    _uv("build", "--quiet", *by_hash, "--wheel", "--out-dir", folder / "direct", tree)
    _uv("build", "--quiet", *by_hash, "--out-dir", folder / "sdist", tree)


def built_in(folder: Path) -> Built:
    """What `build` has made there."""
    (wheel,), (sdist,) = (folder / "direct").glob("*.whl"), (folder / "sdist").glob("*.tar.gz")
    (wheel_of_sdist,) = (folder / "sdist").glob("*.whl")
    return Built(tree=folder / "tree", wheel=wheel, sdist=sdist, wheel_of_sdist=wheel_of_sdist)


def make_environment(folder: Path, *, python: Path = Path(sys.executable)) -> Environment:
    """A new environment of a Python, without pip."""
    _uv("venv", "--quiet", "--python", python, folder)
    return Environment(folder=folder)


def resolve(lock: Path, *, version: str, platform: str, target: Path) -> None:
    """Fail unless a lock file has a wheel of each package for that Python and platform; installs nothing."""
    which = ("--python-version", version, "--python-platform", platform, "--target", target)
    wheels = ("--require-hashes", "--no-deps", "--only-binary", ":all:")
    _uv("pip", "install", "--quiet", "--dry-run", "--python", sys.executable, *which, *wheels, "-r", lock)


def _uv(*words: str | Path) -> None:
    reach = {name: value for name, value in os.environ.items() if _REGISTRY.fullmatch(name)}
    done = subprocess.run(
        [_UV, *words],
        env={
            "PATH": os.defpath,
            "HOME": str(Path.home()),
            "UV_NO_CONFIG": "1",
            "UV_PYTHON_DOWNLOADS": "never",
            **reach,
        },
        capture_output=True,
        text=True,
        timeout=INSTALL_S,
        check=False,
    )
    assert done.returncode == 0, f"uv {' '.join(map(str, words))}: {done.stderr}"
