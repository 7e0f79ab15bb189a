"""What operators did to many runs at once, as seen from outside: part of a history.

Owns the shapes. A call takes effect before its end or never, whatever its ending: an observer whose calls may
take effect later has to end them later.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Switching:
    """A call that engaged the kill switch, or released it. `ending` is OK, REFUSED or LOST.

    `client` engages it once, be it with several calls, and commands nothing else.
    """

    client: str
    engages: bool
    begin_ms: int
    end_ms: int
    ending: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkPage:
    """One call of a command to every living run of a workflow, or of all if `workflow` is empty: a page.

    The calls of a command have one `request_id` and one `client`, who commands nothing else. `runs` are those
    of the answer, `last` says that no page comes behind it: both only with the ending OK. The receipts are
    among the controls of the history.
    """

    client: str
    request_id: str
    workflow: str
    kind: str
    begin_ms: int
    end_ms: int
    ending: str
    reason: str = ""
    runs: tuple[str, ...] = ()
    last: bool = False
