"""Data folders, disks that can fail, and failpoints that are off again after each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from jackline_server import failpoints
from tests.conformance.stores import ManualTime
from tests.storage.disks import Disk


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def time() -> ManualTime:
    return ManualTime()


@pytest.fixture
def disk() -> Iterator[Disk]:
    disk = Disk().register()
    yield disk
    disk.unregister()


@pytest.fixture(autouse=True)
def _failpoints_off() -> Iterator[None]:
    yield
    failpoints.configure("")
