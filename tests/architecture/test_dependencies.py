"""Dependencies are declared, explained and pinned by hash, and start nothing. Proves SC40 in part."""

import re
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.architecture.source_tree import CLIENT, ROOT, SERVER, imported_names, modules

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LIGHT = [Requirement(text) for text in PROJECT["dependencies"]]
SERVER_EXTRA = [Requirement(text) for text in PROJECT["optional-dependencies"]["server"]]
PARTS = {"pydantic-core": "pydantic", "mcp-types": "mcp"}
"""Distributions whose types are documented as part of another, which pins them exactly."""

OURS = {"jackline", "jackline_server", "jackline_client"}


def declared(requirements: list[Requirement]) -> set[str]:
    return {canonicalize_name(requirement.name) for requirement in requirements}


def undeclared_imports(folder: Path, requirements: list[Requirement]) -> set[str]:
    """Third-party modules that a folder imports and that no declared distribution brings."""
    owners = packages_distributions()
    found: set[str] = set()
    for path, tree in modules(folder):
        for name in imported_names(tree):
            top = name.split(".", 1)[0]
            if top in sys.stdlib_module_names or top in OURS:
                continue
            brought_by = {PARTS.get(owner, owner) for owner in map(canonicalize_name, owners.get(top, []))}
            if not brought_by & declared(requirements):
                found.add(f"{path}: {name}")
    return found


def test_the_server_imports_only_what_is_declared() -> None:
    assert undeclared_imports(SERVER, LIGHT + SERVER_EXTRA) == set()


def test_the_client_imports_only_what_a_plain_install_brings() -> None:
    assert undeclared_imports(CLIENT, LIGHT) == set()


def test_every_runtime_dependency_is_explained() -> None:
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    explained = {canonicalize_name(name) for name in re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE)}
    assert explained == declared(LIGHT + SERVER_EXTRA)


def test_every_pin_has_a_hash_and_no_file_names_a_source() -> None:
    for path in sorted((ROOT / "requirements").glob("*.txt")):
        text = path.read_text(encoding="utf-8")
        pins = [block for block in re.split(r"\n(?=\S)", text) if "==" in block.split("\n", 1)[0]]
        assert pins
        assert [pin for pin in pins if "--hash=sha256:" not in pin] == []
        assert re.findall(r"--(?:extra-)?index-url|--find-links|://", text) == []


def test_no_runtime_dependency_runs_code_at_the_start_of_python() -> None:
    pinned = re.findall(
        r"^([\w.-]+)==", (ROOT / "requirements" / "server.txt").read_text("utf-8"), re.MULTILINE
    )
    starters: list[str] = []
    for name in pinned:
        try:
            files = distribution(name).files or []
        except PackageNotFoundError:
            continue  # for another platform or Python
        starters += [f"{name}: {file}" for file in files if file.suffix == ".pth"]
    assert starters == []
