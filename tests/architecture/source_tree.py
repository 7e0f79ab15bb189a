"""The source tree as the tests of this folder read it: files, and their syntax."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SERVER = ROOT / "server" / "jackline_server"
CLIENT = ROOT / "client" / "python" / "jackline_client"


def modules(folder: Path) -> Iterator[tuple[str, ast.Module]]:
    """Every module below a folder: its path from there, and its syntax tree."""
    for path in sorted(folder.rglob("*.py")):
        yield path.relative_to(folder).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def imported_names(tree: ast.Module) -> Iterator[str]:
    """Every name that is imported anywhere in a module, in full: `a.b` for `from a import b`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def dotted(node: ast.expr) -> str:
    """`a.b.c` for a name or attribute; empty for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        inner = dotted(node.value)
        return f"{inner}.{node.attr}" if inner else ""
    return ""


def called_names(tree: ast.Module) -> Iterator[tuple[str, ast.Call]]:
    """Every call in a module by the name it goes by there."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield dotted(node.func), node
