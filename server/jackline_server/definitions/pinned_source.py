"""Tools that somebody else describes, as one compilation sees them, pinned or as fetched last.

Owns where a catalog is taken from, the pins that a compilation leaves behind, and what of a schema is left to
be given. Does not own the steps that are made of tools (`mcp_steps`, `grpc_steps`,
`worker_steps`).
"""

from collections.abc import Mapping
from typing import Any

from jackline_server.core.frozen import frozen
from jackline_server.core.plan import RESERVED_SIGNALS
from jackline_server.definitions.catalog import ToolCatalogs, nearest
from jackline_server.definitions.parameters import placeholders, without
from jackline_server.definitions.report import Report
from jackline_server.definitions.shapes import AgentShape, AnyStep, Document, GrpcShape, McpShape, WorkerShape
from jackline_server.definitions.yaml_nodes import Mark, Path
from jackline_server.runtime import pinned_tools
from jackline_server.runtime.pinned_tools import BadPins, CatalogConnection, PinnedTool
from jackline_server.runtime.ports.definitions import Source

_MAX_NAME = 63


@frozen
class Words:
    """How findings speak of a kind of connection and its tools."""

    connection: str
    tool: str
    unavailable: str


MCP_WORDS = Words(connection="MCP connection", tool="tool", unavailable="mcp_unavailable")
GRPC_WORDS = Words(connection="gRPC connection", tool="method", unavailable="grpc_unavailable")
WORKER_WORDS = Words(connection="pool of workers", tool="tool", unavailable="worker_unavailable")


class PinnedSource:
    """The catalogs that one source reads. `catalogs` fills with the versions of those not pinned."""

    def __init__(
        self, *, source: Source, known: ToolCatalogs, report: Report, words: Words = MCP_WORDS
    ) -> None:
        self.catalogs: dict[str, str | None] = {}
        self._source = source
        self._known = known
        self._report = report
        self._words = words
        self._found: dict[str, pinned_tools.Catalog | None] = {}
        self._used: dict[str, dict[str, PinnedTool]] = {}

    def connection(self, name: str) -> CatalogConnection | None:
        """What the operator says of a connection."""
        return self._known.connection(name)

    def tools(self, name: str, place: Path) -> pinned_tools.Catalog | None:
        """The tools that the operator lets be called; None if they can't be had, which is then reported."""
        connection = self._known.connection(name)
        if connection is None:
            hint = nearest(name, self._known.names())
            message = f"there is no {self._words.connection} `{name[:64]}` in the server's config{hint}"
            self._report.error("unknown_connection", message, place)
            return None
        if name not in self._found:
            self._found[name] = self._catalog(name, place)
        found = self._found[name]
        if found is None:
            return None
        return {tool: found[tool] for tool in found if connection.allows(tool)}

    def tool(self, connection: str, name: str, place: Path) -> PinnedTool | None:
        """One tool, from now on pinned; None if there is none, which is then reported."""
        tools = self.tools(connection, place)
        if tools is None:
            return None
        if name not in tools:
            what = f"`{connection}` has no {self._words.tool} `{name[:64]}`"
            message = f"{what} that may be called{nearest(name, tools)}"
            self._report.error("tool_unknown", message, place)
            return None
        self._used.setdefault(connection, {})[name] = tools[name]
        return tools[name]

    def pins(self) -> dict[str, bytes]:
        """Files that pin the tools in use, by their path beside the workflow."""
        made = {
            pinned_tools.pins_path(name): pinned_tools.pins_text(tools).encode()
            for name, tools in sorted(self._used.items())
        }
        if sum(map(len, made.values())) > pinned_tools.MAX_PINS_BYTES:
            message = "the tools of this workflow have more than 256 KiB of descriptions; allow fewer"
            self._report.error("too_large", message)
        return made

    def _catalog(self, name: str, place: Path) -> pinned_tools.Catalog | None:
        path = pinned_tools.pins_path(name)
        pinned = self._source.files.get(path)
        if pinned is not None:
            try:
                return pinned_tools.read_pins(pinned)
            except BadPins as problem:
                self._report.error_at("bad_pins", f"this pins nothing: {problem}", Mark(0, 0), file=path)
                return None
        found = self._known.catalog(name)
        if isinstance(found, str):
            self.catalogs[name] = None
            message = f"the {self._words.tool}s of `{name}` can't be listed: {found}"
            self._report.error(self._words.unavailable, message, place)
            return None
        self.catalogs[name] = pinned_tools.version_of(found)
        return found


def is_pins(name: str) -> bool:
    """True if a file of a source pins a catalog."""
    folder, _, file = name.partition("/")
    return folder == pinned_tools.PINS_FOLDER and file.endswith(".lock") and "/" not in file


def pinned_connections(steps: Mapping[str, AnyStep]) -> list[str]:
    """The connections with pinned tools that the steps name, each once."""
    named: dict[str, None] = {}
    for step in steps.values():
        if isinstance(step, McpShape | GrpcShape) or (
            isinstance(step, WorkerShape) and step.parameters is None
        ):
            named[step.connection] = None
        elif isinstance(step, AgentShape):
            named.update((entry.from_, None) for entry in step.tools if entry.from_ is not None)
    return list(named)


def step_name(tool: str) -> str | None:
    """The step that a tool becomes: its name in lower case with `_` for what a step's name can't hold."""
    name = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in tool.lower())
    fits = name[:1].isalpha() and len(name) <= _MAX_NAME and name not in RESERVED_SIGNALS
    return name if fits else None


def open_schema(
    schema: Document, shape: McpShape | GrpcShape | WorkerShape, path: Path, report: Report
) -> Document:
    """The schema of what is still to be given: no fixed arguments, but the names in their templates."""
    left = without(schema, frozenset(shape.arguments))
    named = [name for name in placeholders(shape, path, report) if name not in properties_of(schema)]
    if named:
        left["properties"] = {**properties_of(left), **{name: {"type": "string"} for name in named}}
        left["required"] = [*left.get("required", []), *named]
    return left


def properties_of(schema: Document) -> dict[str, Any]:
    """The properties of an object's schema."""
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}  # pyright: ignore[reportUnknownVariableType] - any JSON
