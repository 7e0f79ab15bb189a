"""What was done to the conversation that a model is sent."""

from enum import Enum

from jackline_server.core.frozen import frozen
from jackline_server.core.repairs import Repairs


@frozen
class HistoryRepaired:
    """What a model was to be sent had to be made sound first; these are the repairs that came new."""

    repairs: Repairs


class CompactionKind(Enum):
    """How a conversation was made shorter."""

    PRUNED = "pruned"
    WINDOW = "window"
    SUMMARY = "summary"


@frozen
class Compacted:
    """A model is sent less of the visit's conversation from here on; the log keeps all of it.

    Entries before `kept_from` are left out, and results of those before `pruned_to` are replaced by what
    names them. `overflow` if the provider had refused the conversation as too long. `turns` and `results`
    are what this left out, the tokens are estimates of the next prompt.
    """

    kind: CompactionKind
    overflow: bool
    kept_from: int
    pruned_to: int
    turns: int
    results: int
    tokens_before: int
    tokens_after: int
    summary: str  # content
