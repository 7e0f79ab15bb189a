"""Tool workers: shapes and ports between the config, the door that they connect at, and the pools they serve.

Owns what the two sides of a worker's stream say, in our own words. Does not own the contract's messages (the
door translates them) nor who is invoked when (`tools.worker`). Times are milliseconds.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Protocol

from jackline_server.core.frozen import frozen
from jackline_server.core.plan import Effect, JsonValue
from jackline_server.runtime.ports.connection_guards import Breaker

MOST_TOOLS = 256
MOST_INVOCATIONS = 4_096
MOST_INVOCATION_NAME = 128

# --- the config --------------------------------------------------------------------------------


@frozen
class WorkerConnection:
    """A connection of kind `worker`: a pool that workers may serve.

    `allow` names the tools that they may serve, None for all; `principals` who may, None for every credential
    with the scope. What they say of effects is believed if it is `trusted`. A call waits `wait_ms` for
    somebody who serves its tool, and takes `timeout_ms` at most. `resume_grace_ms` is how long a session
    outlives its stream. For the others see `GuardedConnection`.
    """

    name: str
    allow: frozenset[str] | None
    principals: frozenset[str] | None
    trusted: bool
    wait_ms: int
    timeout_ms: int
    heartbeat_ms: int
    resume_grace_ms: int
    most_workers: int
    concurrency: int
    calls_per_minute: int | None = None
    breaker: Breaker = Breaker()

    @property
    def lock(self) -> Path | None:
        """No file pins a pool: its workers come and go, and only a running server knows them."""
        return None

    def allows(self, tool: str) -> bool:
        """True if the operator lets this tool be served."""
        return self.allow is None or tool in self.allow


# --- what a worker says ------------------------------------------------------------------------


@frozen
class WorkerTool:
    """A tool as a worker offers it, unchecked. `output_schema_json` is empty for any result."""

    name: str
    description: str
    parameters_json: bytes
    output_schema_json: bytes
    effect: Effect | None
    max_parallel: int | None
    cancellable: bool


@frozen
class Registration:
    """Who a worker is and what it serves, unchecked. `session` and `invocations` are for resuming."""

    pool: str
    worker: str
    session: str
    tools: tuple[WorkerTool, ...]
    max_parallel: int | None
    invocations: tuple[str, ...]
    draining: bool


class WorkerErrorKind(Enum):
    """How a tool failed."""

    FAILED = "failed"
    TRANSIENT = "transient"
    UNCERTAIN = "uncertain"
    CANCELLED = "cancelled"
    NOT_STARTED = "not_started"
    """Nothing was begun: another worker may be asked."""


@frozen
class WorkerFailure:
    """A tool's failure, in words for the model."""

    kind: WorkerErrorKind
    message: str
    retry_after_ms: int | None = None


@frozen
class WorkerResult:
    """What an invocation came to: a JSON document, a text, or a failure."""

    invocation: str
    outcome: bytes | str | WorkerFailure


@frozen
class WorkerProgress:
    """How far an invocation has come, unchecked. For `text` see `tool_reports.MOST_TEXT`."""

    invocation: str
    text: str
    fraction: float | None


@frozen
class WorkerLeaves:
    """The worker wants no further invocation."""


WorkerSays = WorkerResult | WorkerProgress | WorkerLeaves


# --- what a worker is told ---------------------------------------------------------------------


@frozen
class WorkerWelcome:
    """The answer to a registration."""

    session: str
    resumed: bool
    heartbeat_ms: int
    resume_grace_ms: int


@frozen
class InvokeTool:
    """Run a tool. `deadline` is a time of the event loop's clock."""

    invocation: str
    tool: str
    arguments_json: str
    deadline: float
    call_key: str
    attempt: int
    run_id: str
    step_id: str
    subject: Mapping[str, JsonValue]
    traceparent: str


class CancelReason(Enum):
    """Why nobody waits for an invocation any more."""

    ABORTED = "aborted"
    TIMED_OUT = "timed_out"
    UNKNOWN = "unknown"


@frozen
class CancelInvocation:
    """Nobody waits for it any more."""

    invocation: str
    reason: CancelReason


@frozen
class ResultTaken:
    """The result is here; the worker may forget it."""

    invocation: str


@frozen
class ServerLeaves:
    """The server invokes nothing more: it goes, and what is in flight has so long; or the worker goes."""

    grace_ms: int | None


WorkerOrder = InvokeTool | CancelInvocation | ResultTaken | ServerLeaves


# --- ports -------------------------------------------------------------------------------------


class WorkerSeat(Protocol):
    """One stream of a worker's session. For one reader and one writer."""

    @property
    def welcome(self) -> WorkerWelcome:
        """What the worker is told first."""
        ...

    async def next_order(self) -> WorkerOrder:
        """The next thing to tell the worker, which counts as told from then on. Cancelling loses nothing.

        Raises:
            Refused: the stream has to end (WORKER_SESSION_TAKEN).
        """
        ...

    @property
    def in_flight(self) -> int:
        """How many invocations the worker has."""
        ...

    def hear(self, said: WorkerSays) -> None:
        """Take in what the worker says."""
        ...

    def end(self, *, leaving: bool) -> None:
        """The stream has ended: for good if the worker is `leaving`, else it may come back."""
        ...


@frozen
class WorkerView:
    """A worker with a session."""

    worker: str
    principal: str
    started_unix_ms: int
    connected: bool
    draining: bool
    tools: Sequence[str]
    max_parallel: int
    in_flight: int


@frozen
class PoolView:
    """A pool and who serves it now. Each tool is as the worker offered it that came last."""

    name: str
    workers: Sequence[WorkerView]
    tools: Sequence[WorkerTool]
    waiting: int
    dropped_results: int


class WorkerRegistry(Protocol):
    """The pools of this server."""

    async def join(self, principal: str, registration: Registration) -> WorkerSeat:
        """Let a worker in, or let it come back.

        Raises:
            Refused: WORKER_POOL_NOT_FOUND, WORKER_TOOL_NOT_ALLOWED, INVALID_REQUEST, WORKER_LIMIT, DRAINING.
        """
        ...

    def pools(self, name: str = "") -> Sequence[PoolView]:
        """The pools, or that one. Raises Refused (WORKER_POOL_NOT_FOUND)."""
        ...

    def leave(self, *, grace_ms: int) -> None:
        """Tell every worker that the server goes, and let none in any more."""
        ...
