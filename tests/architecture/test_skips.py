"""The suite's own rule: what is skipped without leave fails the run."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.source_tree import ROOT

SUITE = """
import pytest

def test_that_runs():
    pass

@pytest.mark.skip(reason="not today")
def test_that_is_skipped():
    pass
"""
MODULE = 'import pytest\npytest.importorskip("a_module_that_nobody_has")\n'


def outcome(folder: Path, *, skips: str, suite: str, workers: str = "0") -> subprocess.CompletedProcess[str]:
    shutil.copy(ROOT / "tests" / "conftest.py", folder / "conftest.py")
    (folder / "allowed_skips.txt").write_text(skips, encoding="utf-8")
    (folder / "test_suite.py").write_text(suite, encoding="utf-8")
    (folder / "test_other.py").write_text("def test_other():\n    pass\n", encoding="utf-8")
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            "-p",
            "xdist.plugin",
            "-n",
            workers,
            "--rootdir",
            ".",
            "-c",
            "/dev/null",
        ],
        cwd=folder,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},  # this rule alone, and quickly
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("workers", ["0", "1"])
@pytest.mark.parametrize("suite", [SUITE, MODULE], ids=["test", "module"])
def test_a_skip_that_is_not_listed_fails_the_run(tmp_path: Path, suite: str, workers: str) -> None:
    ended = outcome(tmp_path, skips="", suite=suite, workers=workers)
    assert ended.returncode == pytest.ExitCode.TESTS_FAILED, ended.stdout
    assert "skipped without leave" in ended.stdout


def test_a_skip_that_is_listed_with_a_reason_passes(tmp_path: Path) -> None:
    ended = outcome(tmp_path, skips="test_suite.py::test_that_is_skipped | no such machine\n", suite=SUITE)
    assert ended.returncode == pytest.ExitCode.OK, ended.stdout


@pytest.mark.parametrize(
    "skips",
    [
        "test_suite.py::test_that_is_skipped\n",
        "".join(f"test_{number}.py* | reason\n" for number in range(6)),
    ],
    ids=["without a reason", "six"],
)
def test_a_list_that_breaks_its_rules_stops_the_run(tmp_path: Path, skips: str) -> None:
    assert outcome(tmp_path, skips=skips, suite=SUITE).returncode == pytest.ExitCode.USAGE_ERROR
