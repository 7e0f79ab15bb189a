"""What a provider itself said of the end of a stream, under a library that has its own ideas of it.

Owns the look at a provider's chunks before litellm makes its own of them: for several providers it says
`stop` where the stream was cut, or where nothing but `[DONE]` came. Where a provider's chunks can't be seen,
nothing is known, and nothing is said.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

_ENDS = frozenset(
    {
        "finish_reason",
        "finishReason",
        "stop_reason",
        "stopReason",
        "done_reason",
        "done",
        "is_finished",
        "completion_reason",
        "blockReason",
    }
)
"""The fields in which one provider or another says why it stops. They are empty until it does."""

_DEPTH = 5
_MOST_ITEMS = 8


class OwnWords:
    """Watches one stream. `came` is true once a chunk was seen, `said_end` once one said why it stops."""

    __slots__ = ("came", "said_end")

    def __init__(self) -> None:
        self.came = False
        self.said_end = False

    def watch(self, wrapper: Any) -> None:  # noqa: ANN401 - litellm's own type
        """Look at the chunks of litellm's wrapper from now on, of a stream that it has or is yet to open."""
        open_stream: Callable[..., Awaitable[object]] | None = getattr(wrapper, "make_call", None)
        if getattr(wrapper, "completion_stream", None) is None and open_stream is not None:

            async def opened(*given: object, **named: object) -> object:
                stream = await open_stream(*given, **named)
                self._watch_parser(stream)
                return stream

            wrapper.make_call = opened
        else:
            self._watch_parser(getattr(wrapper, "completion_stream", None))

    @property
    def has_no_end(self) -> bool:
        """True if chunks were seen and none said that it is the end: an end of this stream is made up."""
        return self.came and not self.said_end

    def _watch_parser(self, stream: Any) -> None:  # noqa: ANN401 - as above
        parse: Callable[..., object] | None = getattr(stream, "chunk_parser", None)
        if parse is None:
            return

        def parsed(*given: object, **named: object) -> object:
            chunk = given[0] if given else named.get("chunk")
            self.came = True
            self.said_end = self.said_end or _says_end(chunk, _DEPTH)
            return parse(*given, **named)

        stream.chunk_parser = parsed


def _says_end(value: object, depth: int) -> bool:
    """True if a field in it says why the stream stops. Looks at the beginning of lists, and not too deep."""
    if depth == 0:
        return False
    if isinstance(value, Mapping):
        for name, inner in cast("Mapping[object, object]", value).items():
            if name in _ENDS and inner:
                return True
            if isinstance(inner, Mapping | list) and _says_end(cast("object", inner), depth - 1):
                return True
        return False
    if isinstance(value, list):
        return any(_says_end(inner, depth - 1) for inner in cast("list[object]", value)[:_MOST_ITEMS])
    return False
