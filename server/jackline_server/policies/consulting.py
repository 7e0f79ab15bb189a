"""The runtime's `Consultants`: whoever a question is for.

Owns the choice by kind. Conditions go to functions, which are handed in.
"""

from dataclasses import dataclass

from jackline_server.core.facts import ConsultKind
from jackline_server.runtime.ports.consultants import Consultants, Consultation, ConsultReply


@dataclass(frozen=True, slots=True, kw_only=True)
class EveryConsultant:
    """Implements `Consultants`."""

    functions: Consultants
    hooks: Consultants
    policies: Consultants

    async def ask(self, question: Consultation) -> ConsultReply:
        """See `Consultants.ask`."""
        if question.kind is ConsultKind.HOOK:
            return await self.hooks.ask(question)
        if question.kind is ConsultKind.POLICY:
            return await self.policies.ask(question)
        return await self.functions.ask(question)
