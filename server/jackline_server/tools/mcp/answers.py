"""A tool's answer as a result of ours.

Owns what each kind of block becomes, and the check against the tool's own output schema. Links are never
followed. What is no text becomes a part of the result, and its number stands where it was.
"""

from mcp_types import (
    AudioContent,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from jackline_server.core import json_text
from jackline_server.core.instruments import SchemaValidator
from jackline_server.core.plan import JsonValue
from jackline_server.runtime.pinned_tools import PinnedTool
from jackline_server.runtime.ports.tools import MediaPart, ToolResult
from jackline_server.tools.mcp.tidying import Held
from jackline_server.tools.media import (
    MOST_PARTS,
    UNKNOWN_TYPE,
    NotBase64,
    from_base64,
    part_of,
    with_parts,
)
from jackline_server.tools.results import HARD_BYTES, clean_json, clean_text, completed, failed

_MAX_NAME = 200


def result_of(
    answer: CallToolResult,
    tool: PinnedTool,
    schemas: SchemaValidator,
    *,
    repeatable: bool,
) -> ToolResult:
    """The result: structured content if there is any, else the text."""
    blocks = _Blocks()
    text = blocks.text_of(answer.content)
    if answer.is_error:
        return failed(text or "The tool failed and did not say why.")
    structured: JsonValue = answer.structured_content
    if isinstance(structured, Held):
        structured = structured.content
    if structured is None and tool.output_schema_json is None:
        return with_parts(completed(clean_text(text) if text else None), blocks.parts)
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
    return with_parts(completed(clean_json(value)), blocks.parts)


class _Blocks:
    """One pass over the blocks of an answer: their text, and the parts that are none."""

    def __init__(self) -> None:
        self.parts: list[MediaPart] = []

    def text_of(self, blocks: list[ContentBlock]) -> str:
        return "\n".join(self._shown(block) for block in blocks)[:HARD_BYTES]

    def _shown(self, block: ContentBlock) -> str:
        match block:
            case TextContent():
                return block.text
            case ImageContent() | AudioContent():
                return self._part(block.data, block.mime_type, block.type, name="")
            case ResourceLink():
                return _link(block)
            case EmbeddedResource():
                resource = block.resource
                if isinstance(resource, TextResourceContents):
                    return resource.text
                uri = str(resource.uri)
                return self._part(resource.blob, resource.mime_type or UNKNOWN_TYPE, "resource", name=uri)

    def _part(self, data: str, claimed: str, kind: str, *, name: str) -> str:
        """What stands for bytes: the number of their part, or why they are none."""
        if len(self.parts) == MOST_PARTS:
            return f"[{kind} left out: a result has {MOST_PARTS} parts at most]"
        try:
            part = part_of(from_base64(data), claimed=claimed, name=name)
        except NotBase64:
            return f"[{kind} left out: {len(data)} characters that are not base64]"
        self.parts.append(part)
        return f"[part {len(self.parts)}]"


def _link(link: ResourceLink) -> str:
    told = [f"a link was not followed: {link.name[:_MAX_NAME]} <{str(link.uri)[:_MAX_NAME]}>"]
    if link.mime_type:
        told.append(link.mime_type[:_MAX_NAME])
    if link.size is not None:
        told.append(f"{link.size} bytes")
    return f"[{', '.join(told)}]"
