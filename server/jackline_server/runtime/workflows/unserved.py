"""Files of the server's folder that are not served, so that whoever asks for their workflow is told why.

Owns which they are, as the folder was read last, and what is said of one: where its first error is and of
which kind. Not in which words: those may repeat what stands in the file, and who may start a run may not
always read workflows. Does not own reading the folder, nor when a workflow is not there (`references`).
"""

import re
from collections.abc import Collection

from jackline_server.core.frozen import frozen
from jackline_server.runtime.ports.definitions import Finding
from jackline_server.runtime.refusals import Reason, Refused

MOST_KEPT = 1_000
_MOST_SHOWN = 200
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")


@frozen
class UnservedFile:
    """One file, by its path in the folder, with the code of its first error. `line` is 0 for all of it."""

    file: str
    code: str
    line: int
    column: int

    @property
    def place(self) -> str:
        """Where the error is, cut to what may be shown."""
        file = self.file[-_MOST_SHOWN:]
        return f"{file}:{self.line}:{self.column}" if self.line else file


class UnservedFiles:
    """The files that were refused when they were read last. A server without a folder has none."""

    def __init__(self) -> None:
        self._files: dict[str, tuple[UnservedFile, frozenset[str]]] = {}

    def note(self, file: str, name: str, error: Finding) -> None:
        """It was refused for this error. `name` is the workflow's, empty if that can't be read."""
        stem = file.rpartition("/")[2].rpartition(".")[0]
        names = frozenset(one for one in (name, stem) if _NAME.fullmatch(one))
        if file in self._files or len(self._files) < MOST_KEPT:
            line = error.line if error.file == file else 0  # else it is of a file that a step names
            one = UnservedFile(file=file, code=error.code, line=line, column=error.column)
            self._files[file] = (one, names)

    def forget(self, file: str) -> None:
        """It is served now."""
        self._files.pop(file, None)

    def keep_only(self, files: Collection[str]) -> None:
        """Those are all that the folder has."""
        for gone in self._files.keys() - files:
            del self._files[gone]

    def refusal(self, reference: str) -> Refused | None:
        """What is said of a workflow that is not there; None if the folder has no file of that name."""
        name = reference.partition("@")[0]
        file = next((one for one, names in self._files.values() if name in names), None)
        if file is None:
            return None
        return Refused(
            Reason.WORKFLOW_NOT_FOUND,
            f"The workflow {name} is not served: {file.place} in the server's folder has an error, "
            f"{file.code}. `jackline validate` of the file and `jackline doctor` say more; once it is "
            "mended, the server reads it by itself.",
            metadata={"workflow": reference, "file": file.place, "finding": file.code},
        )
