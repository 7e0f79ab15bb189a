"""How one kind of fact stands in a `StepEvent`: the shape that the tables of facts are made of."""

from collections.abc import Callable
from typing import Generic, TypeVar

from jackline.v1 import event_pb2
from jackline_server.core.facts import Fact
from jackline_server.core.frozen import frozen

F = TypeVar("F", bound=Fact)


@frozen
class FactCoder(Generic[F]):
    """One kind of fact. `field` is its member of the oneof.

    `pack` sets that member and nothing else. `fill` sets the content, and leaves it untouched if there
    is none; None for a kind without content. `holds_map` says that the content has one, which is then
    written in the order of its keys. `unpack` reads both back; the envelope's fields are set in the event
    when it runs.
    """

    fact: type[F]
    field: str
    pack: Callable[[F, event_pb2.StepEvent], None]
    unpack: Callable[[event_pb2.StepEvent], F]
    fill: Callable[[F, event_pb2.Content], None] | None = None
    holds_map: bool = False
