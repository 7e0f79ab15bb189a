"""A tool's answer as a result of ours.

Owns what each kind of block becomes, and the check against the tool's own output schema. Links are never
followed; what is no text is named and left out.
"""

from mcp_types import (
    AudioContent,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    InputRequiredResult,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from jackline_server.core import json_text
from jackline_server.core.instruments import SchemaValidator
from jackline_server.core.plan import JsonValue
from jackline_server.runtime.mcp_ports import McpTool
from jackline_server.runtime.ports import ToolResult
from jackline_server.tools.mcp.tidying import Held
from jackline_server.tools.results import HARD_BYTES, clean_json, clean_text, completed, failed

_MAX_NAME = 200


def result_of(
    answer: CallToolResult | InputRequiredResult,
    tool: McpTool,
    schemas: SchemaValidator,
    *,
    repeatable: bool,
) -> ToolResult:
    """The result: structured content if there is any, else the text."""
    if isinstance(answer, InputRequiredResult):
        return failed("The tool asks a person for input, which can't be given from here.")
    text = _text(answer.content)
    if answer.is_error:
        return failed(text or "The tool failed and did not say why.")
    structured: JsonValue = answer.structured_content
    if isinstance(structured, Held):
        structured = structured.content
    if structured is None and tool.output_schema_json is None:
        return completed(clean_text(text)) if text else completed(None)
    try:
        value = json_text.parse(json_text.write(structured))
    except ValueError:
        return failed("The tool answered with what is not JSON.", uncertain=not repeatable)
    if tool.output_schema_json is not None:
        problem = schemas.problem(tool.output_schema_json, value)
        if problem is not None:
            return failed(
                f"The tool's answer does not fit its own output schema: {problem}", uncertain=not repeatable
            )
    return completed(clean_json(value))


def _text(blocks: list[ContentBlock]) -> str:
    return "\n".join(_shown(block) for block in blocks)[:HARD_BYTES]


def _shown(block: ContentBlock) -> str:
    match block:
        case TextContent():
            return block.text
        case ImageContent() | AudioContent():
            return f"[{block.type} of type {block.mime_type[:_MAX_NAME]} was left out]"
        case ResourceLink():
            return f"[a link was not followed: {block.name[:_MAX_NAME]} <{str(block.uri)[:_MAX_NAME]}>]"
        case EmbeddedResource():
            resource = block.resource
            if isinstance(resource, TextResourceContents):
                return resource.text
            return f"[binary data was left out: {str(resource.uri)[:_MAX_NAME]}]"
