"""How much of a provider's answer is read at most, whatever reads it. Bytes as they are on the wire.

Reading JSON holds the interpreter from its first byte to its last, in whatever thread it is done: every other
run waits. So what is read at once is bounded twice, by its bytes and by how many values it can hold.
"""

MAX_LINE_BYTES = 2 * 1024 * 1024
"""One line of a stream, one event of it, or a whole reply in one piece. A reply that comes to more than half
of that can't be kept in one event of a run."""

MAX_STREAM_BYTES = 64 * 1024 * 1024
"""A whole stream: a streamed token costs a few hundred bytes."""

MAX_ERROR_BYTES = 256 * 1024
"""The body of an answer that is no reply."""

SLICE_BYTES = 16 * 1024
"""What is read of an answer before others have their turn: what comes fast may be thousands of events."""

SDK_SLICE_BYTES = 4 * 1024
"""The same where a provider's SDK reads it."""

SPARSE_BYTES = 64 * 1024
"""A document of so many bytes is read whatever it holds: in a few milliseconds at most."""

MAX_MARKS = 100_000
"""What may stand between the values of a longer one: braces, brackets, commas and colons outside of texts."""

MAX_SDK_MARKS = 20_000
"""The same of what a provider's SDK reads, which makes an object of its own of each value."""
