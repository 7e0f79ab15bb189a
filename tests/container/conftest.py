"""The image, built once for all processes that share the tests."""

import fcntl
from pathlib import Path

import pytest

from tests.container.image import Image, build
from tests.container.sandbox import can_make_one

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Image:
    """What the Dockerfile builds from this tree. Skips where nobody may make namespaces."""
    if not can_make_one():
        pytest.skip("this user may not make namespaces here (Linux: as root, or with user namespaces)")
    base = tmp_path_factory.getbasetemp()
    shared = base if worker_id == "master" else base.parent
    file = shared / "image.json"
    with (shared / "image.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            build(ROOT, shared / "image").save(file)
    return Image.load(file)
