"""Hiding personal data before anything is stored."""

from dataclasses import dataclass
from typing import Protocol

from jackline_server.core.gate_plans import MaskPlan


class Masks(Protocol):
    """Hides personal data before anything is stored."""

    def text(self, text: str, plan: MaskPlan) -> str:
        """The text with every piece of such data replaced by a mark of its kind. CPU only, in linear time."""
        ...

    def json(self, text: str, plan: MaskPlan) -> str:
        """The same for the texts and numbers of a JSON document; as plain text if it is none."""
        ...


@dataclass(frozen=True, slots=True)
class NoMasks:
    """For a server that masks nothing: a plan that wants it is refused."""

    def text(self, text: str, plan: MaskPlan) -> str:
        """Raises LookupError."""
        raise LookupError("this server has no masks")

    def json(self, text: str, plan: MaskPlan) -> str:
        """Raises LookupError."""
        raise LookupError("this server has no masks")
