"""An MCP answer as a result: whatever its blocks hold, and whatever its schema promises."""

import base64
from typing import Any

import pytest
from mcp.shared.message import SessionMessage
from mcp_types import CallToolResult, JSONRPCResponse

from jackline_server.core import json_text
from jackline_server.expressions.schemas import JsonSchemas
from jackline_server.runtime.pinned_tools import PinnedTool
from jackline_server.runtime.ports.tools import ToolEnding, ToolResult
from jackline_server.tools.mcp.answers import result_of
from jackline_server.tools.mcp.tidying import tidied
from jackline_server.tools.media import MOST_PARTS, UNKNOWN_TYPE
from tests.tools.test_media import PNG

PICTURE = base64.b64encode(PNG).decode()
NESTED = {
    "type": "object",
    "properties": {
        "stay": {"type": "object", "properties": {"nights": {"type": "integer"}}, "required": ["nights"]}
    },
    "required": ["stay"],
}


def result(
    answer: dict[str, Any], *, schema: dict[str, Any] | None = None, repeatable: bool = True
) -> ToolResult:
    """The result of an answer that came over the wire."""
    item = tidied(SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=1, result=answer)))
    assert isinstance(item, SessionMessage)
    assert isinstance(item.message, JSONRPCResponse)
    tool = PinnedTool(
        name="look",
        description="",
        input_schema_json="{}",
        output_schema_json=None if schema is None else json_text.write(schema),
        annotations_json="{}",
    )
    read = CallToolResult.model_validate(item.message.result)
    return result_of(read, tool, JsonSchemas(), repeatable=repeatable)


def text_of(found: ToolResult) -> str:
    text = json_text.parse(found.output_json or "null")
    assert isinstance(text, str)
    return text


def test_images_and_sound_and_embedded_bytes_are_parts_and_their_places_are_named() -> None:
    found = result(
        {
            "content": [
                {"type": "text", "text": "before"},
                {"type": "image", "data": PICTURE, "mimeType": "image/png"},
                {"type": "audio", "data": "AAAA", "mimeType": "audio/x-own"},
                {"type": "resource", "resource": {"uri": "file:///a.bin", "blob": "AAEC"}},
                {"type": "text", "text": "behind"},
            ]
        }
    )
    assert text_of(found).splitlines() == ["before", "[part 1]", "[part 2]", "[part 3]", "behind"]
    assert [(part.media_type, part.name, part.bytes) for part in found.media] == [
        ("image/png", "", len(PNG)),
        ("audio/x-own", "", 3),
        (UNKNOWN_TYPE, "file:///a.bin", 3),
    ]
    assert PICTURE[:20] not in (found.output_json or "")


def test_a_lying_type_and_wrong_base64_are_told() -> None:
    found = result(
        {
            "content": [
                {"type": "image", "data": base64.b64encode(b"<script>").decode(), "mimeType": "image/png"},
                {"type": "image", "data": "not base64!", "mimeType": "image/png"},
            ]
        }
    )
    assert [part.media_type for part in found.media] == [UNKNOWN_TYPE]
    assert text_of(found).splitlines()[1] == "[image left out: 11 characters that are not base64]"


def test_a_thousand_images_are_as_many_parts_as_a_result_may_have() -> None:
    found = result({"content": [{"type": "image", "data": "AAAA", "mimeType": "image/png"}] * 1_000})
    assert len(found.media) == MOST_PARTS
    assert len(text_of(found).splitlines()) == 1_000


@pytest.mark.parametrize(
    "block",
    [
        {"text": "no type"},
        {"type": 7, "text": "x"},
        {"type": "hologram", "data": "x" * 100},
        {"type": "image", "data": "AAAA"},
        {"type": "image", "data": 5, "mimeType": "image/png"},
        {"type": "resource", "resource": {"uri": "file:///a"}},
        {"type": "resource", "resource": None},
        {"type": "resource_link"},
        {"type": "text"},
        "words",
        None,
        ["text"],
    ],
)
def test_a_block_that_nobody_can_read_becomes_a_note_and_costs_no_other(block: object) -> None:
    found = result({"content": [block, {"type": "text", "text": "kept"}]})
    assert found.ending is ToolEnding.COMPLETED
    note, kept = text_of(found).splitlines()
    assert note.startswith("[left out: ")
    assert note.endswith(" characters]")
    assert kept == "kept"


def test_a_link_says_what_it_leads_to_and_is_not_followed() -> None:
    link = {"type": "resource_link", "name": "map", "uri": "file:///m", "mimeType": "image/png", "size": 9}
    found = result({"content": [link]})
    assert text_of(found) == "[a link was not followed: map <file:///m>, image/png, 9 bytes]"
    assert not found.media


def test_structured_content_keeps_the_parts_beside_it() -> None:
    content = [{"type": "image", "data": PICTURE, "mimeType": "image/png"}]
    found = result({"content": content, "structuredContent": {"stay": {"nights": 2}}}, schema=NESTED)
    assert found.output_json == '{"stay":{"nights":2}}'
    assert [part.data for part in found.media] == [PNG]


@pytest.mark.parametrize(
    "structured",
    [None, {}, {"stay": 2}, {"stay": {}}, {"stay": {"nights": "two"}}, {"stay": {"nights": None}}],
)
@pytest.mark.parametrize("repeatable", [True, False])
def test_content_that_breaks_its_own_schema_is_an_error_and_leaves_a_write_open(
    structured: object, *, repeatable: bool
) -> None:
    answer = {"content": [{"type": "text", "text": "fine"}], "structuredContent": structured}
    found = result(answer, schema=NESTED, repeatable=repeatable)
    assert found.ending is (ToolEnding.FAILED if repeatable else ToolEnding.UNCERTAIN)
    assert found.output_json is None
    assert not found.media


def test_an_error_with_a_picture_is_its_words() -> None:
    content = [{"type": "text", "text": "no"}, {"type": "image", "data": PICTURE, "mimeType": "image/png"}]
    found = result({"content": content, "isError": True})
    assert (found.ending, found.media) == (ToolEnding.FAILED, ())
    assert PICTURE[:20] not in found.error
