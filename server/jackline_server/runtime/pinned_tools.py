"""Tools that somebody else describes, pinned: what the runtime knows of them, whatever their server speaks.

Owns the digest of a tool, the text that pins a catalog, the same for an operator's lock file and for what is
stored beside a workflow, and the port by which catalogs are fetched. Does not own how a server is reached
(`tools.mcp`, `tools.grpc`) nor what the config says of it (`ports.mcp`, `ports.grpc`).
"""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Protocol

from jackline_server.core import json_text
from jackline_server.core.frozen import frozen
from jackline_server.core.plan import JsonObject, JsonValue, Plan

PINS_FOLDER = "connections"
MAX_PINS_BYTES = 256 * 1024
_VERSION = 1
_LONGEST_SHOWN = 64


# --- tools -------------------------------------------------------------------------------------


class ToolHint(Enum):
    """What a server says that a tool may change. Only a trusted server is believed."""

    NONE = "none"
    READ = "read"
    IDEMPOTENT = "idempotent"
    DESTRUCTIVE = "destructive"


@frozen
class PinnedTool:
    """A tool as its server describes it. `output_schema_json` is None if it promises no structure.

    One that `needs_task` can be called only as a task, which is fetched later: nobody here can.
    """

    name: str
    description: str
    input_schema_json: str
    output_schema_json: str | None
    annotations_json: str
    needs_task: bool = False

    @property
    def digest(self) -> str:
        """SHA-256, in hexadecimal, over everything that the server says of it."""
        return hashlib.sha256(_canonical(_described(self)).encode()).hexdigest()

    @property
    def hint(self) -> ToolHint:
        """The annotations as one word. What a server leaves out, it does not claim."""
        said = json_text.parse_object(self.annotations_json)
        if said.get("readOnlyHint") is True:
            return ToolHint.READ
        if said.get("destructiveHint") is True:
            return ToolHint.DESTRUCTIVE
        return ToolHint.IDEMPOTENT if said.get("idempotentHint") is True else ToolHint.NONE


Catalog = Mapping[str, PinnedTool]
"""The tools of one server by name."""


def version_of(catalog: Catalog) -> str:
    """One digest for a whole catalog."""
    return hashlib.sha256("".join(catalog[name].digest for name in sorted(catalog)).encode()).hexdigest()


class BadPins(ValueError):
    """A text pins nothing. The message is for the person who keeps it."""


def pins_path(connection: str) -> str:
    """Where the pins of a connection stand among the files of a workflow."""
    return f"{PINS_FOLDER}/{connection}.lock"


def pins_text(catalog: Catalog) -> str:
    """The catalog as a text for people to read and compare: JSON, by name, one line a value."""
    tools: JsonObject = {
        name: {"digest": catalog[name].digest, **_described(catalog[name])} for name in sorted(catalog)
    }
    document: JsonObject = {"version": _VERSION, "tools": tools}
    return json.dumps(document, ensure_ascii=False, indent=1) + "\n"


def read_pins(text: str | bytes) -> Catalog:
    """The catalog back. Raises BadPins, also if a digest is not that of its tool."""
    try:
        document = json_text.parse_object(text)
        tools = document.get("tools")
        if document.get("version") != _VERSION or not isinstance(tools, dict):
            raise BadPins(f"it is not a lock file of version {_VERSION}")
        return {name: _read_tool(name, value) for name, value in tools.items()}
    except json_text.JsonError as error:
        raise BadPins(f"it is not JSON: {error}") from None


def _read_tool(name: str, value: JsonValue) -> PinnedTool:
    fields = value if isinstance(value, dict) else {}
    description, output = fields.get("description"), fields.get("outputSchema")
    schema, annotations = fields.get("inputSchema"), fields.get("annotations")
    if not isinstance(description, str) or not isinstance(schema, dict) or not isinstance(annotations, dict):
        raise BadPins(f"the tool {_shown(name)} is not described as it has to be")
    tool = PinnedTool(
        name=name,
        description=description,
        input_schema_json=json_text.write(schema),
        output_schema_json=json_text.write(output) if isinstance(output, dict) else None,
        annotations_json=json_text.write(annotations),
        needs_task=fields.get("needsTask") is True,
    )
    if fields.get("digest") != tool.digest:
        raise BadPins(
            f"the digest of the tool {_shown(name)} is not that of its description; make the file anew"
        )
    return tool


def _shown(name: str) -> str:
    """A name out of a file that may be anybody's: however long it is, the message stays one to read."""
    return repr(name if len(name) <= _LONGEST_SHOWN else f"{name[:_LONGEST_SHOWN]}…")


def _described(tool: PinnedTool) -> JsonObject:
    output = tool.output_schema_json
    described: JsonObject = {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": json_text.parse(tool.input_schema_json),
        "outputSchema": None if output is None else json_text.parse(output),
        "annotations": json_text.parse(tool.annotations_json),
    }
    return {**described, "needsTask": True} if tool.needs_task else described


def _canonical(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


# --- connections -------------------------------------------------------------------------------


class CatalogConnection(Protocol):
    """A connection whose tools are pinned, whatever it speaks. What it says is believed if `trusted`."""

    @property
    def name(self) -> str:
        """Its name in the config."""
        ...

    @property
    def trusted(self) -> bool:
        """Whether what its server says of an effect is believed."""
        ...

    @property
    def lock(self) -> Path | None:
        """A file that pins its catalog."""
        ...

    def allows(self, tool: str) -> bool:
        """True if the operator lets this tool be called."""
        ...


# --- ports -------------------------------------------------------------------------------------


class Catalogs(Protocol):
    """The catalogs of servers. A compilation reads what was fetched last; this fetches."""

    async def refresh(self, connections: Collection[str]) -> Mapping[str, str | None]:
        """Fetch what is old; the version of each catalog, None for one that can't be had. Raises nothing."""
        ...

    async def changed(self, plan: Plan) -> Sequence[str]:
        """The tools of the plan that their servers now describe differently or no longer have, as steps.

        A server that can't be asked has changed nothing. Raises nothing.
        """
        ...


class NoCatalogs:
    """For a runtime without such connections. Implements `Catalogs`."""

    async def refresh(self, connections: Collection[str]) -> Mapping[str, str | None]:
        """There is none."""
        return dict.fromkeys(connections)

    async def changed(self, plan: Plan) -> Sequence[str]:
        """Nothing changes."""
        del plan
        return ()
