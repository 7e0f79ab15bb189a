"""The import contracts of pyproject.toml name everything that there is."""

import importlib
import tomllib
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from tests.architecture.source_tree import ROOT, SERVER

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CONTRACTS: list[dict[str, Any]] = PROJECT["tool"]["importlinter"]["contracts"]
SCRIPTS: dict[str, str] = PROJECT["project"]["scripts"]
PLUGINS: dict[str, str] = PROJECT["project"]["entry-points"]["jackline.commands"]


def layers_of(container: str) -> tuple[dict[str, Any], set[str]]:
    """The contract that layers a package, and the names it has."""
    (layers,) = [contract for contract in CONTRACTS if contract.get("containers") == [container]]
    return layers, {name.strip(" ()") for layer in layers["layers"] for name in layer.split("|")}


def test_every_package_of_the_server_has_a_layer() -> None:
    layers, named = layers_of("jackline_server")
    present = {path.name for path in SERVER.iterdir() if (path / "__init__.py").exists()}
    present |= {path.stem for path in SERVER.glob("*.py") if path.stem != "__init__"}
    assert layers["exhaustive"] is True
    assert present - named == set()
    assert named - present <= {"__main__"}


def test_every_storey_of_the_core_has_a_layer() -> None:
    _, named = layers_of("jackline_server.core")
    storeys = {path.name for path in (SERVER / "core").iterdir() if (path / "__init__.py").exists()}
    assert storeys - named == {"facts"}, "the facts are of the vocabulary"


def test_the_contracts_look_at_every_package_of_ours() -> None:
    assert set(PROJECT["tool"]["importlinter"]["root_packages"]) == {
        "jackline",
        "jackline_server",
        "jackline_client",
    }


@pytest.mark.parametrize("target", [*SCRIPTS.values(), *PLUGINS.values()])
def test_every_command_that_is_declared_exists(target: str) -> None:
    assert callable(EntryPoint(name="declared", value=target, group="declared").load())


def test_every_package_that_is_built_can_be_imported() -> None:
    for path in PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]:
        assert importlib.import_module((ROOT / path).name)
