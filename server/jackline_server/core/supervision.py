"""What a supervisor has seen of a visit, and what it has done: the part of a run's state that it needs.

Owns the shape. `evolve_supervision` changes it, `supervising` reads it. A visit that nobody watches has none.
"""

from collections.abc import Mapping

from jackline_server.core.frozen import frozen
from jackline_server.core.gates import Trial


@frozen
class Supervision:
    """The rules and the judge of a visit.

    `counts` says how often calls came that are alike, as far as a rule compares them. `failures` are the last
    calls that ended, true for one that did not succeed, no more of them than the widest rule looks at.
    `fired` has how many turns were over when a rule fired last, and `held` the calls that each rule has held
    up, by pairs of its place and the call, with the sequence of the firing. `unsound` are the rules whose
    expression could not be evaluated, which is noticed once. `denied` are the calls that a person denied,
    with what the model is told, and `unanswered` is who had asked and heard nothing in time.

    `trial` is set while the judge is at work. It has looked at the first `judged_turns` turns, and at the
    first `judged_entries` entries of the conversation. `refused` are the places of those replies among them
    that it did not pass, or ended the run over, and of what it told the model about them: they are no part
    of what comes of the step. `sent_back` is true from an answer that it did not pass to the next reply.
    """

    counts: Mapping[bytes, int]
    failures: tuple[bool, ...] = ()
    fired: Mapping[str, int]
    held: Mapping[tuple[str, str], int]
    unsound: frozenset[str] = frozenset()
    denied: Mapping[str, str]
    unanswered: str = ""
    trial: Trial | None = None
    judged_turns: int = 0
    judged_entries: int = 0
    refused: frozenset[int] = frozenset()
    sent_back: bool = False
