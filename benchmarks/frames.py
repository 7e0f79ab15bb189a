"""The frames of a stream as a watcher got them, taken apart without decoding what is in them.

Owns the few rules of the wire that this takes. So a watcher can compare the very bytes of an event with
those in the store.
"""

from collections.abc import Iterator

EVENTS_FIELD = 1
_VARINT, _FIXED64, _DELIMITED, _FIXED32 = 0, 1, 2, 5
_SEVEN_BITS, _MORE = 0x7F, 0x80


class BrokenFrame(Exception):
    """Bytes that are no protobuf message."""


def events_of(frame: bytes) -> list[bytes]:
    """The encoded events of an encoded StreamProgressResponse. Raises BrokenFrame."""
    return [value for number, value in _fields(frame) if number == EVENTS_FIELD and isinstance(value, bytes)]


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    position, end = 0, len(data)
    while position < end:
        tag, position = _varint(data, position)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, position = _varint(data, position)
            yield number, value
            continue
        if kind == _DELIMITED:
            size, position = _varint(data, position)
        elif kind in (_FIXED32, _FIXED64):
            size = 4 if kind == _FIXED32 else 8
        else:
            raise BrokenFrame(f"wire type {kind}")
        if position + size > end:
            raise BrokenFrame("cut off")
        yield number, data[position : position + size]
        position += size


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if position >= len(data):
            raise BrokenFrame("cut off")
        byte = data[position]
        position += 1
        value |= (byte & _SEVEN_BITS) << shift
        if not byte & _MORE:
            return value, position
        shift += 7
