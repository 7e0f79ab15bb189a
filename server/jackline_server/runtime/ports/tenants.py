"""Whose data it is."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tenant:
    """Whose data it is. Made only from a verified credential, or by code that acts for all."""

    id: str


DEFAULT_TENANT = Tenant("default")
