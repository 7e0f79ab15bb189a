"""What the author of a hook class is given and may answer: the public door of hooks.

A hook is a class whose methods are named after points of a run: `before_run`, `after_run`, `before_turn`,
`after_turn`, `before_model_call`, `after_model_call`, `before_tool_call`, `after_tool_call`. It has those
that it needs, each with one parameter, an `Event`, and each may be `async`. One instance serves all runs of a
server, so several threads may be in it at once.

A method answers None or `Proceed()` to let the run go on, `Veto()` to end it, `Retry()` to have the call that
is just over made once more. Owns these shapes and nothing else.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Where a run is, and what is about to happen or has happened there.

    `point` is the name of the method. `step` is empty, `visit` and `iteration` are 0 between steps. `subject`
    is on whose behalf the run works. `values` depend on the point; docs/hooks.md lists them. Mappings can't
    be changed and lists are tuples.
    """

    point: str
    run_id: str
    workflow: str
    step: str
    visit: int
    iteration: int
    principal: str
    subject: Mapping[str, Any]
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Proceed:
    """No objection. `metadata` are short texts to keep with the run."""

    metadata: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Veto:
    """End the step with the exit `error`, or the run before its first step. The reason is kept in the log."""

    reason: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Retry:
    """Make the model call or tool call that is just over once more, where the caps leave room for it."""

    metadata: Mapping[str, str] = field(default_factory=dict[str, str])


Answer = Proceed | Veto | Retry
