"""What a worker offers when it registers: checked whole, and every fault told at once.

Owns the limits and what becomes of an offer that keeps to them: a tool that can be pinned. Pure.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Protocol

from jackline_server.core import json_text
from jackline_server.core.blank_text import is_blank
from jackline_server.core.frozen import frozen
from jackline_server.core.plan import Effect, JsonObject
from jackline_server.runtime.pinned_tools import PinnedTool
from jackline_server.runtime.ports.workers import (
    MOST_INVOCATION_NAME,
    MOST_INVOCATIONS,
    MOST_TOOLS,
    Registration,
    WorkerConnection,
    WorkerTool,
)
from jackline_server.runtime.refusals import Reason, Refused, Violation
from jackline_server.tools.results import clean_text

MOST_PARALLEL = 1_000
MOST_DESCRIPTION = 8_192
MOST_SCHEMA = 64 * 1024
MOST_NAME = 128
PARALLEL = 8
"""What a worker serves at a time if it does not say."""

_TOOL = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}", re.ASCII)
_HINTS: Mapping[Effect, JsonObject] = {
    Effect.READ: {"readOnlyHint": True},
    Effect.IDEMPOTENT: {"idempotentHint": True},
    Effect.WRITE: {},
    Effect.DESTRUCTIVE: {"destructiveHint": True},
}


class SchemaChecker(Protocol):
    """JSON Schema, as far as an offer needs it."""

    def refusal(self, schema_json: str) -> tuple[tuple[str | int, ...], str] | None:
        """Where in a schema something is refused, and in one line why; None if it can be used."""
        ...


@frozen
class OfferedTool:
    """A tool that can be called. `pinned` is how it is described, `offer` how its worker put it."""

    pinned: PinnedTool
    offer: WorkerTool
    digest: str
    most: int


@frozen
class Offer:
    """A registration that keeps to the rules."""

    worker: str
    tools: Mapping[str, OfferedTool]
    max_parallel: int


def checked(said: Registration, connection: WorkerConnection, schemas: SchemaChecker) -> Offer:
    """The offer. Parses every schema, so a large one takes a while.

    Raises:
        Refused: INVALID_REQUEST with every fault, or WORKER_TOOL_NOT_ALLOWED.
    """
    most = PARALLEL if said.max_parallel is None else said.max_parallel
    faults = [*_faults(said, most)]
    tools: dict[str, OfferedTool] = {}
    for index, tool in enumerate(said.tools[:MOST_TOOLS]):
        place = f"register.tools[{index}]"
        found = list(_tool_faults(tool, place, schemas))
        if tool.name in tools:
            found.append(_fault(f"{place}.name", f"{tool.name!r} is there twice", "DUPLICATE"))
        faults += found
        if not found:
            tools[tool.name] = _offered(tool, most)
    if faults:
        raise Refused(
            Reason.INVALID_REQUEST,
            "The registration breaks its rules. Correct the fields that are listed.",
            violations=tuple(faults),
        )
    for name in tools:
        if not connection.allows(name):
            raise Refused(
                Reason.WORKER_TOOL_NOT_ALLOWED,
                f"The operator lets no worker serve the tool {name} in this pool. Ask for it to be allowed.",
                metadata={"tool": name, "pool": connection.name},
            )
    return Offer(worker=clean_text(said.worker), tools=tools, max_parallel=most)


def _faults(said: Registration, most: int) -> Iterator[Violation]:
    if not 1 <= len(said.worker) <= MOST_NAME or not said.worker.isprintable() or is_blank(said.worker):
        yield _fault(
            "register.worker", f"has 1 to {MOST_NAME} printable characters, not spaces alone", "BAD_NAME"
        )
    if not said.tools:
        yield _fault("register.tools", "names no tool", "REQUIRED")
    if len(said.tools) > MOST_TOOLS:
        yield _fault("register.tools", f"has {len(said.tools)} tools, at most {MOST_TOOLS}", "TOO_MANY")
    if not 1 <= most <= MOST_PARALLEL:
        yield _fault("register.max_parallel", f"is from 1 to {MOST_PARALLEL}", "OUT_OF_RANGE")
    if len(said.invocations) > MOST_INVOCATIONS:
        yield _fault("register.invocations", f"has at most {MOST_INVOCATIONS}", "TOO_MANY")
    if any(len(name) > MOST_INVOCATION_NAME for name in said.invocations):
        yield _fault("register.invocations", "names what is no invocation", "BAD_NAME")


def _tool_faults(tool: WorkerTool, place: str, schemas: SchemaChecker) -> Iterator[Violation]:
    if _TOOL.fullmatch(tool.name) is None:
        yield _fault(
            f"{place}.name", "is a letter, then up to 63 letters, digits, `_`, `-` or `.`", "BAD_NAME"
        )
    if is_blank(tool.description) or len(tool.description) > MOST_DESCRIPTION:
        yield _fault(
            f"{place}.description",
            f"has 1 to {MOST_DESCRIPTION} characters, not blanks alone",
            "BAD_DESCRIPTION",
        )
    if tool.max_parallel is not None and not 1 <= tool.max_parallel <= MOST_PARALLEL:
        yield _fault(f"{place}.max_parallel", f"is from 1 to {MOST_PARALLEL}", "OUT_OF_RANGE")
    yield from _schema_faults(tool.parameters_json, f"{place}.parameters_json", schemas, of_object=True)
    if tool.output_schema_json:
        yield from _schema_faults(
            tool.output_schema_json, f"{place}.output_schema_json", schemas, of_object=False
        )


def _schema_faults(
    text: bytes, place: str, schemas: SchemaChecker, *, of_object: bool
) -> Iterator[Violation]:
    if len(text) > MOST_SCHEMA:
        yield _fault(place, f"has {len(text)} bytes, at most {MOST_SCHEMA}", "TOO_LARGE")
        return
    try:
        schema = json_text.parse_object(text)
    except json_text.JsonError as error:
        yield _fault(place, f"is no JSON Schema: {error}", "BAD_SCHEMA")
        return
    if of_object and schema.get("type") != "object":
        yield _fault(place, "is a JSON Schema with `type: object`", "BAD_SCHEMA")
        return
    refused = schemas.refusal(json_text.write(schema))
    if refused is not None:
        where, problem = refused
        at = "".join(f"/{part}" for part in where)
        yield _fault(place, f"can't be used: {at + ': ' if at else ''}{problem}", "BAD_SCHEMA")


def _fault(field: str, description: str, reason: str) -> Violation:
    return Violation(field=field, description=description, reason=reason)


def _offered(tool: WorkerTool, most: int) -> OfferedTool:
    output = tool.output_schema_json
    pinned = PinnedTool(
        name=tool.name,
        description=clean_text(tool.description),
        input_schema_json=json_text.write(json_text.parse(tool.parameters_json)),
        output_schema_json=json_text.write(json_text.parse(output)) if output else None,
        annotations_json=json_text.write(_HINTS[tool.effect or Effect.WRITE]),
    )
    return OfferedTool(
        pinned=pinned, offer=tool, digest=pinned.digest, most=min(tool.max_parallel or most, most)
    )
