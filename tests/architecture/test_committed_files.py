"""What no committed file may hold: the name of a package registry's host, or a path of one machine."""

import subprocess
from pathlib import Path

from tests.architecture.source_tree import ROOT

# In two parts each, so that this file does not hold what it looks for.
REGISTRIES = [
    ".".join(parts)
    for parts in (
        ("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"), ("npmjs", "com"), ("yarnpkg", "com"),
        ("proxy", "golang.org"), ("sum", "golang.org"), ("crates", "io"), ("maven", "org"),
        ("repo", "maven.apache.org"), ("deb", "debian.org"), ("rubygems", "org"), ("nuget", "org"),
    )
]  # fmt: skip
MACHINE_PATHS = [
    "/".join(parts) for parts in (("", "work", "main"), ("", "work", "shared"), ("", "root", ""))
]


def committed_files() -> list[Path]:
    """What git holds or would take."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],  # noqa: S607 - git of this machine
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    )
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def holders(words: list[str]) -> list[str]:
    found: list[str] = []
    for path in committed_files():
        text = path.read_bytes().decode("utf-8", "replace")
        found += [f"{path.relative_to(ROOT)}: {word}" for word in words if word in text]
    return found


def test_no_committed_file_names_a_package_registry() -> None:
    assert holders(REGISTRIES) == []


def test_no_committed_file_holds_a_path_of_one_machine() -> None:
    assert holders(MACHINE_PATHS) == []
