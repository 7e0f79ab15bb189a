"""The findings of one compilation, collected all at once.

Owns their order, their places and that no secret is ever printed in one. Does not own what is checked.
"""

from jackline_server.definitions import secret_scan
from jackline_server.definitions.yaml_nodes import MapNode, Mark, Path, path_text, place
from jackline_server.runtime.ports import Finding, Severity

MAX_FINDINGS = 200
_MAX_MESSAGE = 500
_WEIGHT = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}


class Report:
    """Collects findings about one source; `root` comes when the text was parsed."""

    def __init__(self, *, file: str) -> None:
        self._file = file
        self._root: MapNode | None = None
        self._found: dict[tuple[str, str, str, int], Finding] = {}

    def locate_in(self, root: MapNode) -> None:
        """From now on, paths are places in this tree."""
        self._root = root

    def error(self, code: str, message: str, path: Path = (), *, of_key: bool = False) -> None:
        """The workflow can't be used."""
        self._add(Severity.ERROR, code, message, (path, of_key))

    def warning(self, code: str, message: str, path: Path = (), *, of_key: bool = False) -> None:
        """Likely not what was meant."""
        self._add(Severity.WARNING, code, message, (path, of_key))

    def info(self, code: str, message: str, path: Path = ()) -> None:
        """Worth knowing."""
        self._add(Severity.INFO, code, message, (path, False))

    def error_at(self, code: str, message: str, mark: Mark, *, file: str = "") -> None:
        """An error at a place that is no path: in the text of the YAML, or of another file."""
        self._keep(Severity.ERROR, code, message, (file or self._file, mark, ""))

    @property
    def has_errors(self) -> bool:
        """True if the source can't become a plan."""
        return any(finding.severity is Severity.ERROR for finding in self._found.values())

    def findings(self) -> tuple[Finding, ...]:
        """Errors first, then warnings, then infos, each from top to bottom."""
        found = sorted(
            self._found.values(),
            key=lambda one: (_WEIGHT[one.severity], one.file, one.line, one.column, one.code, one.path),
        )
        return tuple(found[:MAX_FINDINGS])

    def _add(self, severity: Severity, code: str, message: str, at: tuple[Path, bool]) -> None:
        path, of_key = at
        mark = place(self._root, path, of_key=of_key) if self._root and path else Mark(0, 0)
        self._keep(severity, code, message, (self._file, mark, path_text(path)))

    def _keep(self, severity: Severity, code: str, message: str, at: tuple[str, Mark, str]) -> None:
        file, mark, path = at
        finding = Finding(
            severity=severity,
            code=code,
            message=secret_scan.masked(" ".join(message.split()))[:_MAX_MESSAGE],
            file=secret_scan.masked(file),
            line=mark.line,
            column=mark.column,
            path=secret_scan.masked(path)[:_MAX_MESSAGE],
        )
        self._found.setdefault((finding.code, finding.file, finding.message, mark.line), finding)
