"""Compiling a workflow file: what comes of it, and what is wrong with it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from jackline_server.core.frozen import frozen
from jackline_server.core.plan import Plan


class Severity(Enum):
    """How much a finding weighs."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@frozen
class Finding:
    """One finding of a check. `line` and `column` are from 1, 0 where it is about the whole file."""

    severity: Severity
    code: str
    message: str
    file: str
    line: int
    column: int
    path: str


@frozen
class Signature:
    """A workflow as those see it that run it. `runs` are the references of those that its own steps run."""

    name: str
    input_schema_json: str | None
    runs: tuple[str, ...]


@frozen
class Source:
    """A workflow as it was written. `file` is the name that findings cite for the YAML.

    `known` are the workflows that its steps run, and those that these run, by the reference that names them;
    a text says why there is none. What was not looked up is left out.
    """

    yaml: str
    files: Mapping[str, bytes]
    file: str = "workflow.yaml"
    known: Mapping[str, Signature | str] = field(default_factory=dict[str, "Signature | str"])


@frozen
class WorstCase:
    """The most that one run can spend; None has no cap."""

    model_requests: int | None
    tool_calls: int | None
    tokens: int | None
    cost_micros: int | None
    active_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Compilation:
    """What a source was compiled to. `plan` is None if a finding is an error.

    `name` is the workflow's, empty if it has none; `revision` the SHA-256 of the source with its pins.
    `catalogs` are the MCP connections whose catalog was read, with the version that was, None if there was
    none. `pins` are files that keep what was read of them: a source with them needs no catalog to compile.
    `runs` are the references of the workflows that its steps run.
    """

    name: str
    revision: str
    plan: Plan | None
    findings: tuple[Finding, ...]
    worst_case: WorstCase | None
    catalogs: Mapping[str, str | None] = field(default_factory=dict[str, "str | None"])
    pins: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    runs: tuple[str, ...] = ()


class Compiler(Protocol):
    """Turns a workflow file into a plan, or into findings that say why not."""

    def compile(self, source: Source) -> Compilation:
        """Check and compile. CPU only, bounded by the sizes of the source; raises nothing."""
        ...

    def signature(self, source: Source) -> Signature | None:
        """What others need to know of it, unchecked; None if it can't be read. CPU only, raises nothing."""
        ...
