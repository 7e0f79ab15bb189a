"""How much of a provider's answer is read at most, whatever reads it. Bytes as they are on the wire."""

MAX_LINE_BYTES = 8 * 1024 * 1024
"""One line of a stream, one event of it, or a whole reply in one piece."""

MAX_STREAM_BYTES = 64 * 1024 * 1024
"""A whole stream: a streamed token costs a few hundred bytes."""

MAX_ERROR_BYTES = 256 * 1024
