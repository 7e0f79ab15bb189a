"""A server's tools, page by page.

Owns the caps: a server that lists without end, or one tool twice, has no catalog.
"""

from mcp.client import ClientSession
from mcp_types import PaginatedRequestParams, Tool

from jackline_server.core import json_text
from jackline_server.core.plan import JsonValue
from jackline_server.runtime.pinned_tools import Catalog, PinnedTool
from jackline_server.tools.mcp.failures import ServerDown
from jackline_server.tools.results import clean_text

MAX_PAGES = 100
MAX_TOOLS = 1_000
MAX_BYTES = 4 * 1024 * 1024


async def listed(session: ClientSession) -> Catalog:
    """Every tool of the server, in the order of their names.

    Raises ServerDown if its list is none, and what the SDK raises.
    """
    found: dict[str, PinnedTool] = {}
    size, cursor, asked = 0, None, set[str]()
    for _ in range(MAX_PAGES):
        page = await session.list_tools(params=PaginatedRequestParams(cursor=cursor) if cursor else None)
        for listed_tool in page.tools:
            tool = _tool(listed_tool)
            if tool.name in found:
                raise ServerDown(f"it lists the tool {tool.name[:64]!r} twice")
            found[tool.name] = tool
            size += len(tool.description) + len(tool.input_schema_json) + len(tool.output_schema_json or "")
            if len(found) > MAX_TOOLS or size > MAX_BYTES:
                raise ServerDown(f"it lists more than {MAX_TOOLS} tools or {MAX_BYTES} characters of them")
        cursor = page.next_cursor
        if not cursor:
            return {name: found[name] for name in sorted(found)}  # whatever order the server has today
        if cursor in asked:
            raise ServerDown("its list of tools leads back to a page that was read")
        asked.add(cursor)
    raise ServerDown(f"its list of tools has more than {MAX_PAGES} pages")


def _tool(tool: Tool) -> PinnedTool:
    try:
        output = tool.output_schema
        annotations: JsonValue = {}
        if tool.annotations is not None:
            annotations = tool.annotations.model_dump(mode="json", by_alias=True, exclude_none=True)
        return PinnedTool(
            name=clean_text(tool.name),
            description=clean_text(tool.description or tool.title or ""),
            input_schema_json=_sane(tool.input_schema),
            output_schema_json=None if output is None else _sane(output),
            annotations_json=_sane(annotations),
            needs_task=tool.execution is not None and tool.execution.task_support == "required",
        )
    except ValueError:
        raise ServerDown(f"it describes the tool {tool.name[:64]!r} with what is not JSON") from None


def _sane(value: JsonValue) -> str:
    return json_text.write(json_text.parse(json_text.write(value)))
