"""What can be wrong with a config, and the error that carries all of it at once."""

from collections.abc import Sequence
from enum import Enum

from jackline_server.core.frozen import frozen


class ProblemCode(Enum):
    """The kinds of problem."""

    UNREADABLE = "unreadable"
    SYNTAX = "syntax"
    UNSAFE_FILE = "unsafe_file"
    UNKNOWN_KEY = "unknown_key"
    NOT_BUILT = "not_built"
    MISSING = "missing"
    WRONG_TYPE = "wrong_type"
    BAD_VALUE = "bad_value"
    BAD_REFERENCE = "bad_reference"
    INSECURE = "insecure"


@frozen
class Problem:
    """One problem. `where` is a file with its line, a variable or a flag; `key` the dotted TOML path.

    `message` never holds a value that came from a reference or from a variable.
    """

    code: ProblemCode
    where: str
    key: str
    message: str

    def __str__(self) -> str:
        subject = f"{self.where}: {self.key}" if self.key and self.key != self.where else self.where
        return f"{subject}: {self.message}"


class ConfigError(Exception):
    """The config can't be used. `problems` holds every problem that was found, at least one."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)
