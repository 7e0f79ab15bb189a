"""What a call of a pinned tool begins with: that it is what the plan pinned, and what it gets.

Owns the words for one that has changed. Does not own how a tool is called (`mcp`, `grpc`, `worker`).
"""

from collections.abc import Collection, Mapping

from jackline_server.core import json_text, templates
from jackline_server.core.plan import JsonObject, JsonValue
from jackline_server.runtime.pinned_tools import Catalog, PinnedTool
from jackline_server.runtime.ports.tools import Invocation
from jackline_server.tools.http_message import filled

TOOL_CHANGED = "tool_changed"
"""The first word of what a caller is told of a tool that is no longer what it was."""


class ToolChanged(Exception):
    """The tool is not what the plan pinned."""


def pinned(name: str, digest: str, catalog: Catalog) -> PinnedTool:
    """The tool, still as it was pinned. Raises ToolChanged."""
    tool = catalog.get(name)
    if tool is None:
        raise ToolChanged(f"the server no longer has the tool {name!r}.")
    if tool.digest != digest:
        raise ToolChanged(f"the server now describes the tool {name!r} differently.")
    return tool


def changed_words(changed: ToolChanged) -> str:
    """What a caller is told."""
    return f"{TOOL_CHANGED}: {changed} Nothing was called."


def arguments_of(arguments_json: str, tool: PinnedTool, invocation: Invocation) -> JsonObject:
    """What the tool gets, by its own schema. Raises MessageProblem: a template has no value."""
    properties = json_text.parse_object(tool.input_schema_json).get("properties")
    takes: Mapping[str, JsonValue] = properties if isinstance(properties, dict) else {}
    return arguments_among(takes, arguments_json, invocation)


def arguments_among(takes: Collection[str], arguments_json: str, invocation: Invocation) -> JsonObject:
    """What it takes of the step's input, what the caller chose, and what is fixed, on top.

    Raises:
        MessageProblem: a template has no value.
    """
    fixed = json_text.parse_object(arguments_json)
    only_in_templates = set(templates.names_in(fixed)) - set(takes)
    given = {name: value for name, value in invocation.step_input.items() if name in takes}
    for values in (invocation.arguments, invocation.bound):
        given |= {name: value for name, value in values.items() if name not in only_in_templates}
    made = filled(fixed, invocation.values)
    return {**given, **(made if isinstance(made, dict) else {})}
