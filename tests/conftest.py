"""Rules of the whole suite: a test that is skipped, and not listed with a reason, fails the run.

Owns the list's format (`allowed_skips.txt` beside this file) and how it is enforced, with pytest-xdist and
without; and that no example of a property is red because the machine was slow, or takes minutes to say
why it is, line by line. Fixtures of one part stand in that part's folder.
"""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

LIST = Path(__file__).with_name("allowed_skips.txt")
MOST = 5

settings.register_profile(
    "suite",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[phase for phase in Phase if phase is not Phase.explain],
)
settings.load_profile("suite")


class AllowedSkips:
    """Collects skips and fails the session over those that are not listed."""

    def __init__(self, patterns: list[str]) -> None:
        self._patterns = patterns
        self._offences: dict[str, str] = {}

    def allows(self, node_id: str) -> bool:
        """True if the list names this test."""
        return any(
            node_id.startswith(pattern[:-1]) if pattern.endswith("*") else node_id == pattern
            for pattern in self._patterns
        )

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.skipped and not self.allows(report.nodeid):
            words = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            self._offences[report.nodeid] = getattr(report, "wasxfail", "") or str(words)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Look at a test's end; under xdist the controller sees all of them."""
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Look at a module's end: one that skips itself has no tests that could."""
        self._note(report)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Turn a session that would have passed into one that did not."""
        if self._offences and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say which they are."""
        if not self._offences:
            return
        terminalreporter.section("skipped without leave", red=True)
        for node_id, words in sorted(self._offences.items()):
            terminalreporter.line(f"{node_id}: {words}")
        terminalreporter.line(f"Make them run, or list them with a reason in {LIST.name}.")


def read_list(text: str) -> list[str]:
    """The patterns of the list. Raises UsageError: a line without a reason, or too many."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    pairs = [line.split(" | ", 1) for line in lines]
    for pair in pairs:
        if len(pair) != len(("test", "reason")) or not pair[1].strip():
            raise pytest.UsageError(f"{LIST.name}: `{pair[0]}` has no reason; write `test | reason`")
    if len(pairs) > MOST:
        raise pytest.UsageError(f"{LIST.name}: {len(pairs)} tests; at most {MOST} may be skipped")
    return [pair[0].strip() for pair in pairs]


def pytest_configure(config: pytest.Config) -> None:
    """Enforce the list in the process that gives the exit code."""
    if not hasattr(config, "workerinput"):
        patterns = read_list(LIST.read_text(encoding="utf-8"))
        config.pluginmanager.register(AllowedSkips(patterns), "allowed-skips")
