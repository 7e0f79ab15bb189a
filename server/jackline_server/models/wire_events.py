"""The body of a streamed reply, read into its documents: server-sent events with JSON in them.

Owns where an event begins and ends, the `[DONE]` at the end of all, and the caps. Pure; one reader an answer.
Takes what servers really send: any line end, comments that keep the connection alive, data over several
lines, events with a name, a last event without its empty line.
"""

import json
from collections.abc import Mapping
from typing import cast

from jackline_server.core.facts import FailureClass
from jackline_server.models.failures import over_size
from jackline_server.models.wire_caps import MAX_LINE_BYTES, MAX_MARKS, MAX_STREAM_BYTES, SPARSE_BYTES
from jackline_server.models.wire_density import marks_of
from jackline_server.runtime.ports.models import ModelFailure

_DONE = b"[DONE]"
_MARK = b"\xef\xbb\xbf"
_ERROR = b"error"
_PIECE_BYTES = 64
"""What keeping a piece costs beside its bytes: a line that comes byte by byte is cut off sooner."""

_DECODER = json.JSONDecoder()


class EventReader:
    """Reads one body, part by part. `is_done` turns true with `[DONE]`; what comes behind it is not read."""

    __slots__ = (
        "_bytes",
        "_data",
        "_data_bytes",
        "_ends_with_return",
        "_name",
        "_rest",
        "_rest_bytes",
        "is_done",
    )

    def __init__(self) -> None:
        self.is_done = False
        self._bytes = 0
        self._rest: list[bytes] = []
        self._rest_bytes = 0
        self._ends_with_return = False
        self._name = b""
        self._data: list[bytes] = []
        self._data_bytes = 0

    def feed(self, part: bytes) -> list[object]:
        """The documents that this part completes.

        Raises:
            ModelFailure: MALFORMED, it is not JSON, or over a cap.
        """
        self._bytes += len(part)
        if self._bytes > MAX_STREAM_BYTES:
            raise over_size()
        if b"\r" in part or self._ends_with_return:
            part = self._with_plain_ends(part)
        head, newline, tail = part.rpartition(b"\n")
        if not newline:
            self._keep(part)
            return []
        if self._rest:
            head = b"".join((*self._rest, head))
            self._rest.clear()
            self._rest_bytes = 0
        documents = self._lines(head.split(b"\n"))
        self._keep(tail)
        return documents

    def end(self) -> list[object]:
        """The document of an event that the end of the body completed. Raises as `feed` does."""
        line = b"".join(self._rest)
        self._rest.clear()
        return self._lines([line, b""])

    # --- inside ----------------------------------------------------------------------------

    def _with_plain_ends(self, part: bytes) -> bytes:
        """The part with each line end as a newline. A return at the very end may be half of one."""
        if self._ends_with_return and part.startswith(b"\n"):
            part = part[1:]
        self._ends_with_return = part.endswith(b"\r")
        return part.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _keep(self, tail: bytes) -> None:
        if tail:
            self._rest.append(tail)
            self._rest_bytes += len(tail) + _PIECE_BYTES
            if self._rest_bytes > MAX_LINE_BYTES:
                raise over_size()

    def _lines(self, lines: list[bytes]) -> list[object]:
        documents: list[object] = []
        for line in lines:
            if line:
                self._field(line)
                continue
            if self._data:
                self._dispatch(documents)
                if self.is_done:
                    break
            self._name = b""
        return documents

    def _field(self, line: bytes) -> None:
        """One line of an event. What is no field that counts, such as a comment, is passed over."""
        line = line.removeprefix(_MARK)  # only the very first may have one
        if line.startswith(b"data:"):
            value = line[6:] if line.startswith(b"data: ") else line[5:]
            self._data.append(value)
            self._data_bytes += len(value) + _PIECE_BYTES
            if self._data_bytes > MAX_LINE_BYTES:
                raise over_size()
        elif line.startswith(b"event:"):
            self._name = line[6:].strip()

    def _dispatch(self, documents: list[object]) -> None:
        """The event is over: its document, unless it is the end of all or holds nothing."""
        data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
        self._data.clear()
        self._data_bytes = 0
        stripped = data.strip()
        if stripped == _DONE:
            self.is_done = True
        elif stripped:
            documents.append(read_document(data, named=self._name == _ERROR))


def read_document(data: bytes, *, named: bool = False) -> object:
    """The JSON of an event or of a whole reply. An error that does not say so itself is put under `error`.

    `named` says that the event's name calls it one.

    Raises:
        ModelFailure: MALFORMED, it is not JSON, or of so many values that reading it would hold up others.
    """
    if len(data) > SPARSE_BYTES and marks_of(data) > MAX_MARKS:
        raise over_size()
    try:
        return _as_error(_DECODER.decode(data.decode()), named=named)
    except (ValueError, RecursionError):
        raise ModelFailure(
            FailureClass.MALFORMED, "the model's provider sent a reply that can't be read: it is not JSON"
        ) from None


def whole_as_chunk(document: object) -> object:
    """A reply in one piece, in the form of a chunk that has all of it."""
    if not isinstance(document, Mapping):
        return document
    fields = cast("Mapping[str, object]", document)
    choices = fields.get("choices")
    if not isinstance(choices, list):
        return fields
    return {**fields, "choices": [_with_delta(choice) for choice in cast("list[object]", choices)]}


def _with_delta(choice: object) -> object:
    if not isinstance(choice, Mapping):
        return choice
    fields = cast("Mapping[str, object]", choice)
    message = fields.get("message")
    if not isinstance(message, Mapping):
        return fields
    delta = dict(cast("Mapping[str, object]", message))
    calls = delta.get("tool_calls")
    if isinstance(calls, list):  # a place in the list is an index that nobody had to say
        delta["tool_calls"] = [
            {**cast("Mapping[str, object]", call), "index": index} if isinstance(call, Mapping) else call
            for index, call in enumerate(cast("list[object]", calls))
        ]
    return {**fields, "delta": delta}


def _as_error(document: object, *, named: bool) -> object:
    """The document; with all of it under `error` if it is an error that does not say so there."""
    if not isinstance(document, dict):
        return {"error": document} if named and document is not None else document
    fields = cast("dict[str, object]", document)
    if fields.get("error") is None and (named or fields.get("object") == "error"):
        return {"error": fields}
    return fields
