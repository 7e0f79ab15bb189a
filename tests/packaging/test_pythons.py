"""The wheel on every Python that this machine has, and the lock on every one that the metadata names."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.packaging.environments import COMMAND_S, ROOT, Environment, resolve
from tests.packaging.pythons import found_pythons
from tests.packaging.serving import serving
from tests.packaging.test_archives import PROJECT

pytestmark = pytest.mark.timeout(900)

PYTHONS = found_pythons()
_CLASSIFIER = "Programming Language :: Python :: 3."
NAMED = [text.rpartition(" ")[2] for text in PROJECT["classifiers"] if text.startswith(_CLASSIFIER)]
PLATFORMS = ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "aarch64-apple-darwin")


@pytest.mark.parametrize("version", PYTHONS)
def test_the_wheel_serves_and_runs_a_workflow_to_its_end_on(
    version: str, server_on: Callable[[str, Path], Environment], tmp_path: Path
) -> None:
    installed = server_on(version, PYTHONS[version])
    tell = (installed.python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])")
    told = subprocess.run(tell, capture_output=True, text=True, timeout=COMMAND_S, check=True)
    assert told.stdout.strip() == version
    with serving(installed, tmp_path) as address:
        ended = installed.call(
            "run", "greeting", "-i", "name=Ada", home=tmp_path, environ={"JACKLINE_ADDRESS": address}
        )
    assert ended.returncode == 0, ended.stderr
    assert "Hello, Ada." in ended.stdout
    assert "run succeeded" in ended.stdout


def test_the_metadata_names_the_oldest_python_that_it_asks_for() -> None:
    assert PROJECT["requires-python"] == f">={NAMED[0]}"


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("version", NAMED)
def test_the_lock_needs_no_compiler_on(version: str, platform: str, tmp_path: Path) -> None:
    resolve(ROOT / "requirements" / "server.txt", version=version, platform=platform, target=tmp_path)
