"""What a model would be told of one call that was made by hand: the very text, after every cut.

Owns making a call of a run from it. How a result is told is the core's (`transcript`).
"""

import hashlib
from collections.abc import Iterator, Mapping

from jackline_server.commands.toolshed import Shown
from jackline_server.core import json_text
from jackline_server.core.media import ResultMedia
from jackline_server.core.plan import JsonValue
from jackline_server.core.reading import transcript
from jackline_server.core.state import ToolCall
from jackline_server.runtime.driving.results import BLOB_BYTES
from jackline_server.runtime.ports.tools import MediaPart, ToolEnding, ToolResult


def told(tool: Shown, arguments: Mapping[str, JsonValue], result: ToolResult) -> str:
    """The text of the result in the conversation of the agent whose tool it is; empty if there is none."""
    if tool.plan is None or tool.step is None:
        return ""
    call = ToolCall(
        call_id="call_1",
        ordinal=1,
        tool=tool.step.step_id,
        name=tool.name,
        arguments=json_text.write(dict(arguments)),
        step_id=tool.asked_by,
        visit=1,
        iteration=1,
        requested_sequence=1,
        status=result.ending.status(tool.step.effect),
        effect=tool.step.effect,
        attempts=1,
        cut_from_bytes=result.cut_from_bytes,
        output_json=result.output_json,
        error=result.error,
        tail=result.tail,
        blob="" if result.whole is None else _blob(result.whole.encode()),
        media=tuple(_kept(part) for part in result.media),
    )
    return transcript.told(call, tool.plan)


def notes(result: ToolResult, text: str) -> Iterator[str]:
    """What the text alone does not say: how much of the output it is, and what a run would do next."""
    if result.cut_from_bytes:
        yield f"the whole output has {result.cut_from_bytes} bytes"
    elif result.output_json is not None and len(text) < len(result.output_json):
        yield f"of {len(result.output_json)} characters of JSON the model is told {len(text)}"
    for number, part in enumerate(result.media, start=1):
        yield f"part {number} is {part.media_type} of {part.bytes} bytes"
    if result.ask is not None:
        yield f"it asks a person, whose answer it goes on with in a run: {result.ask.text}"
    if result.may_pass:
        yield "it may pass: a run calls a tool that reads or is idempotent again"
    if result.ending is ToolEnding.UNCERTAIN:
        yield "whether it took effect is not known: a run follows `on_unknown` of the step if it writes"


def _kept(part: MediaPart) -> ResultMedia:
    blob = "" if part.data is None else _blob(part.data)
    return ResultMedia(media_type=part.media_type, size=part.bytes, name=part.name, blob=blob)


def _blob(data: bytes) -> str:
    """The name under which a run would keep it; empty if it is too much for one."""
    return hashlib.sha256(data).hexdigest() if len(data) <= BLOB_BYTES else ""
