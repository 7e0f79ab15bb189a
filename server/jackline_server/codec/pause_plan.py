"""How long a run may be paused, in the stored plan."""

from jackline.v1 import plan_pb2
from jackline_server.codec.enums import ON_PAUSE_MAX
from jackline_server.core.plan import PausePlan


def set_pause(into: plan_pb2.Plan, pause: PausePlan | None) -> None:
    """Write it; nothing where a run may be paused for ever."""
    if pause is not None:
        into.pause_max_ms = pause.max_ms
        into.on_pause_max = ON_PAUSE_MAX.wire[pause.then]


def read_pause(message: plan_pb2.Plan) -> PausePlan | None:
    """Read it back. Raises UnknownFact."""
    if not message.HasField("pause_max_ms"):
        return None
    return PausePlan(max_ms=message.pause_max_ms, then=ON_PAUSE_MAX.read(message.on_pause_max))
