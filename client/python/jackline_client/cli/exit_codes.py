"""What the exit code of a command says: one table, printed by `--help`.

Owns the numbers. A run that failed, a stream that was cut and a server that can't be reached are three
different things.
"""

from collections.abc import Mapping
from enum import IntEnum

from jackline_client.errors import (
    AddressError,
    CallError,
    CredentialError,
    DataLoss,
    DeadlineExceeded,
    Internal,
    JacklineError,
    PermissionDenied,
    ResourceExhausted,
    StreamCut,
    Unauthenticated,
    Unavailable,
    Unknown,
)


class ExitCode(IntEnum):
    """The exit codes of `jackline`."""

    OK = 0
    RUN_FAILED = 1
    USAGE = 2
    EXHAUSTED = 3
    ABORTED = 4
    NEEDS_REVIEW = 5
    REFUSED = 65
    UNAVAILABLE = 69
    SERVER_BUG = 70
    OUTPUT_FAILED = 74
    UNFINISHED = 75
    DENIED = 77
    INTERRUPTED = 130
    PIPE_CLOSED = 141


MEANINGS: Mapping[ExitCode, str] = {
    ExitCode.OK: "done; for run and watch: the run succeeded",
    ExitCode.RUN_FAILED: "the run failed; validate: it has errors; webhooks test: undelivered; eval: no pass",
    ExitCode.USAGE: "the command line is wrong",
    ExitCode.EXHAUSTED: "the run reached a bound",
    ExitCode.ABORTED: "the run was aborted",
    ExitCode.NEEDS_REVIEW: "the run needs a person to look at it",
    ExitCode.REFUSED: "the server refused the request: not found, not valid, or not in this state",
    ExitCode.UNAVAILABLE: "the server can't be reached, is busy or full, or took too long",
    ExitCode.SERVER_BUG: "the server has a bug or lost data",
    ExitCode.OUTPUT_FAILED: "the output or a file could not be written, as on a full disk; a run goes on",
    ExitCode.UNFINISHED: "the stream was cut, or a command did not reach --wait in 10 s; the run may go on",
    ExitCode.DENIED: "no token, a wrong one, or one that may not do this",
    ExitCode.INTERRUPTED: "interrupted by Ctrl-C; a run goes on",
    ExitCode.PIPE_CLOSED: "whoever read the output went away; a run goes on",
}
"""One line for each code."""

_BY_STATE: Mapping[str, ExitCode] = {
    "RUN_STATE_SUCCEEDED": ExitCode.OK,
    "RUN_STATE_NEEDS_REVIEW": ExitCode.NEEDS_REVIEW,
    "RUN_STATE_EXHAUSTED": ExitCode.EXHAUSTED,
    "RUN_STATE_FAILED": ExitCode.RUN_FAILED,
    "RUN_STATE_ABORTED": ExitCode.ABORTED,
}

# The first row that fits decides.
_BY_ERROR: tuple[tuple[type[JacklineError], ExitCode], ...] = (
    (AddressError, ExitCode.USAGE),
    (CredentialError, ExitCode.DENIED),
    (StreamCut, ExitCode.UNFINISHED),
    (Unauthenticated, ExitCode.DENIED),
    (PermissionDenied, ExitCode.DENIED),
    (Unavailable, ExitCode.UNAVAILABLE),
    (ResourceExhausted, ExitCode.UNAVAILABLE),
    (DeadlineExceeded, ExitCode.UNAVAILABLE),
    (Internal, ExitCode.SERVER_BUG),
    (DataLoss, ExitCode.SERVER_BUG),
    (Unknown, ExitCode.SERVER_BUG),
    (CallError, ExitCode.REFUSED),
)


def exit_code_of_state(state: str) -> ExitCode:
    """Returns the code for a terminal run state by its name; an unknown one is a failure."""
    return _BY_STATE.get(state, ExitCode.RUN_FAILED)


def exit_code_of_error(error: JacklineError) -> ExitCode:
    """Returns the code for an error of the library."""
    return next((code for kind, code in _BY_ERROR if isinstance(error, kind)), ExitCode.SERVER_BUG)


def exit_code_table() -> str:
    """Returns the table as text, one code a line."""
    return "\n".join(f"{code.value:>4}  {meaning}" for code, meaning in MEANINGS.items())
