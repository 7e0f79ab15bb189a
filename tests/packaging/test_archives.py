"""What is in the wheel and in the sdist."""

import tarfile
import tomllib
import zipfile
from email.message import Message
from email.parser import BytesParser
from pathlib import Path, PurePosixPath

import pytest

from tests.packaging.environments import JUNK, ROOT, Built

pytestmark = pytest.mark.timeout(900)

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PACKAGES = {"jackline", "jackline_client", "jackline_server"}
PROTOS = {path.name for path in (ROOT / "proto/jackline/v1").glob("*.proto")}


def files_of_wheel(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def files_of_sdist(sdist: Path) -> set[PurePosixPath]:
    with tarfile.open(sdist) as archive:
        return {PurePosixPath(*PurePosixPath(each.name).parts[1:]) for each in archive if each.isfile()}


def metadata_of(wheel: Path) -> Message:
    (found,) = (data for name, data in files_of_wheel(wheel).items() if name.endswith(".dist-info/METADATA"))
    return BytesParser().parsebytes(found)


def test_the_sdist_makes_the_same_wheel_byte_for_byte(built: Built) -> None:
    assert files_of_wheel(built.wheel_of_sdist) == files_of_wheel(built.wheel)
    assert built.wheel_of_sdist.name == built.wheel.name


def test_the_wheel_holds_every_file_of_the_packages_and_no_other(built: Built) -> None:
    lying_about = {built.tree / name for name in JUNK}
    tree = {
        path.relative_to(built.tree / root).as_posix()
        for root in ("proto/gen/python", "server", "client/python")
        for package in PACKAGES
        for path in (built.tree / root / package).rglob("*")
        if path.is_file() and path not in lying_about
    }
    protos = {f"jackline/v1/{proto}" for proto in PROTOS}
    files = {name for name in files_of_wheel(built.wheel) if ".dist-info/" not in name}
    assert files == tree | protos
    assert not any(PurePosixPath(name).name.startswith("test_") for name in files)


def test_the_wheel_holds_the_types_the_contract_and_the_license(built: Built) -> None:
    names = set(files_of_wheel(built.wheel))
    assert {f"{package}/py.typed" for package in PACKAGES} <= names
    assert {f"jackline/v1/{proto}" for proto in PROTOS} <= names
    assert "jackline/v1/run_pb2.pyi" in names
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_the_sdist_holds_sources_and_nothing_that_lay_about(built: Built) -> None:
    files = files_of_sdist(built.sdist)
    assert {path.parts[0] for path in files} == {
        *("CHANGELOG.md", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml", ".gitignore"),
        *("client", "proto", "server"),
    }
    assert {path.name for path in files if path.suffix == ".proto"} == PROTOS
    assert files & {PurePosixPath(name) for name in JUNK} == set()


def test_the_metadata_says_what_an_index_shows(built: Built) -> None:
    told = metadata_of(built.wheel)
    assert told["Name"] == "jackline"
    assert told["Version"] == PROJECT["version"]
    assert told["License-Expression"] == "Apache-2.0"
    assert told["License-File"] == "LICENSE"
    assert told["Description-Content-Type"] == "text/markdown"
    assert told["Requires-Python"] == PROJECT["requires-python"]
    assert str(told.get_payload()).startswith("# Jackline\n")
    assert told.get_all("Project-URL") is None
    assert sorted(told.get_all("Classifier") or []) == sorted(PROJECT["classifiers"])
    assert told.get_all("Provides-Extra") == ["dev", "server"]
