"""The findings of one compilation, collected all at once.

Owns their order, their places and that no secret is ever printed in one. Does not own what is checked.
"""

from jackline_server.definitions import secret_scan
from jackline_server.definitions.yaml_nodes import MapNode, Mark, Path, path_text, place
from jackline_server.runtime.ports.definitions import Finding, Severity

MAX_FINDINGS = 100
_MAX_MESSAGE = 500
_MAX_SEARCHED = 4_096
_MARGIN = 256
"""As long as a secret is likely to be: the end of a text that was cut here is not shown."""
_WEIGHT = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}


class TooManyErrors(Exception):
    """The source has so many errors that looking for more helps nobody. The report has the first of them."""


class Report:
    """Collects findings about one source, at most `MAX_FINDINGS`; `root` comes when the text was parsed."""

    def __init__(self, *, file: str) -> None:
        self._file = file
        self._root: MapNode | None = None
        self._found: dict[tuple[str, str, str, int], Finding] = {}
        self._counts = dict.fromkeys(Severity, 0)
        self._stopped = False

    def locate_in(self, root: MapNode) -> None:
        """From now on, paths are places in this tree."""
        self._root = root

    def error(self, code: str, message: str, path: Path = (), *, of_key: bool = False) -> None:
        """The workflow can't be used. Raises TooManyErrors."""
        self._add(Severity.ERROR, code, message, (path, of_key))

    def warning(self, code: str, message: str, path: Path = (), *, of_key: bool = False) -> None:
        """Likely not what was meant."""
        self._add(Severity.WARNING, code, message, (path, of_key))

    def info(self, code: str, message: str, path: Path = ()) -> None:
        """Worth knowing."""
        self._add(Severity.INFO, code, message, (path, False))

    def error_at(self, code: str, message: str, mark: Mark, *, file: str = "") -> None:
        """An error at a place that is no path: in the text of the YAML, or of another file.

        Raises TooManyErrors.
        """
        self._keep(Severity.ERROR, code, message, (file or self._file, mark, ""))

    def not_all_checked(self) -> None:
        """What the errors so far leave unread was not checked: there may be more to find."""
        self.info("not_all_checked", "further checks follow once these errors are mended")

    @property
    def has_errors(self) -> bool:
        """True if the source can't become a plan."""
        return self._counts[Severity.ERROR] > 0

    @property
    def is_full(self) -> bool:
        """True if another warning would only be counted."""
        return self._counts[Severity.WARNING] >= MAX_FINDINGS

    def findings(self) -> tuple[Finding, ...]:
        """Errors first, then warnings, then infos, each from top to bottom; the last says how many more."""
        found = sorted(
            self._found.values(),
            key=lambda one: (_WEIGHT[one.severity], one.file, one.line, one.column, one.code, one.path),
        )
        more = sum(self._counts.values()) - MAX_FINDINGS
        if more <= 0:
            return tuple(found)
        told = "and more: the search ended here" if self._stopped else f"and {more} more"
        last = Finding(
            severity=Severity.INFO, code="more", message=told, file=self._file, line=0, column=0, path=""
        )
        return (*found[:MAX_FINDINGS], last)

    def _add(self, severity: Severity, code: str, message: str, at: tuple[Path, bool]) -> None:
        path, of_key = at
        mark = place(self._root, path, of_key=of_key) if self._root and path else Mark(0, 0)
        self._keep(severity, code, message, (self._file, mark, path_text(path)))

    def _keep(self, severity: Severity, code: str, message: str, at: tuple[str, Mark, str]) -> None:
        file, mark, path = at
        finding = Finding(
            severity=severity,
            code=code,
            message=_shown(" ".join(message[:_MAX_SEARCHED].split())),
            file=secret_scan.masked(file),
            line=mark.line,
            column=mark.column,
            path=_shown(path[:_MAX_SEARCHED]),
        )
        key = (finding.code, finding.file, finding.message, mark.line)
        if key in self._found:
            return
        self._counts[severity] += 1
        if self._counts[severity] <= MAX_FINDINGS:
            self._found[key] = finding
        elif severity is Severity.ERROR:
            self._stopped = True
            raise TooManyErrors


def _shown(text: str) -> str:
    """The text without secrets, cut."""
    masked = secret_scan.masked(text)
    return masked[
        : min(_MAX_MESSAGE, len(masked) - _MARGIN if len(text) > _MAX_SEARCHED // 2 else _MAX_MESSAGE)
    ]
