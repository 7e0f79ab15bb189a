"""Who is asked around the loop: hooks, a policy, a Python condition."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from jackline_server.core.facts import ConsultKind
from jackline_server.core.frozen import frozen
from jackline_server.core.gate_plans import ArgumentsView, Point
from jackline_server.core.plan import JsonValue


@frozen
class RunPlace:
    """Where in which run a question is asked. `visit` and `iteration` are 0 between steps."""

    workflow: str = ""
    principal: str = ""
    step_id: str = ""
    visit: int = 0
    iteration: int = 0


@frozen
class Consultation:
    """A question. `who` is the place in the plan that asks it, `target` names who is asked.

    `variables` are what may be given to whoever is asked; `subject` says on whose behalf the run works.
    `point` is where in the run, None for a condition; `view` how much of a call's arguments a policy
    service may see.
    """

    kind: ConsultKind
    target: str
    run_id: str
    who: str
    variables: Mapping[str, JsonValue]
    subject: Mapping[str, JsonValue]
    timeout_ms: int
    point: Point | None = None
    view: ArgumentsView | None = None
    place: RunPlace = RunPlace()


@frozen
class ConsultReply:
    """The answer; None if there is none, with the reason in words.

    Yes and no are what a condition is; to a hook or a policy they are to let pass and not to. `retry` asks
    for the call once more; `metadata` is what a hook sets for the run.
    """

    answer: bool | None
    error: str = ""
    reason: str = ""
    retry: bool = False
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])


class Consultants(Protocol):
    """Those who are asked and change nothing."""

    async def ask(self, question: Consultation) -> ConsultReply:
        """Put one question. Whatever goes wrong is a reply without an answer, never a raise.

        Returns at most about a second after the question's time is over. Cancelling it ends the question;
        what can't be stopped is left behind.
        """
        ...


@dataclass(frozen=True, slots=True)
class NoConsultants:
    """For a server that has nobody to ask."""

    async def ask(self, question: Consultation) -> ConsultReply:
        """There is no answer."""
        del question
        return ConsultReply(answer=None, error="This server has no functions.")
