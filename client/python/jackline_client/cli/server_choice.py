"""Which server a command talks to, and which token goes there.

Owns the order: flags, then the environment, then the current context, then the default. Does not own the file
of contexts (`context_file`) nor where tokens lie (`credentials`).

A context counts as a whole: its token goes to its own address and to no other.
"""

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from jackline_client.cli.context_file import Context, ContextError, contexts_path, read_contexts
from jackline_client.credentials import (
    DEFAULT_ADDRESS,
    check_address,
    find_token,
    read_token_file,
    read_token_variable,
    token_path,
)

ADDRESS_VARIABLE = "JACKLINE_ADDRESS"
CONTEXT_VARIABLE = "JACKLINE_CONTEXT"
_TOKEN_VARIABLES = ("JACKLINE_TOKEN", "JACKLINE_TOKEN_FILE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A server that was found by the rules."""

    address: str
    source: str
    """What named it: a flag, a variable, the current context, the default."""
    context: Context | None = None
    """The context that it comes from."""
    is_context_flag: bool = False
    """True if a flag named that context: then its token wins over the environment's."""

    def token(self, *, environ: Mapping[str, str] | None = None) -> str | None:
        """Finds the token for it; None if there is none anywhere. Raises CredentialError."""
        environment = os.environ if environ is None else environ
        context = self._context_with_token(environment)
        if context is None:
            return find_token(self.address, environ=environment)
        named_by = f"the context {context.name!r}"
        if context.token_env:
            return read_token_variable(context.token_env, environ=environment)
        return read_token_file(Path(context.token_file), named_by=named_by)

    def token_sources(self, *, environ: Mapping[str, str] | None = None) -> str:
        """Says where `token` looks, for people."""
        environment = os.environ if environ is None else environ
        context = self._context_with_token(environment)
        if context is None:
            return f"{', '.join(_TOKEN_VARIABLES)} and {token_path(self.address, environ=environment)}"
        place = context.token_env or context.token_file
        return f"{place}, as the context {context.name!r} says"

    def token_source(self, *, environ: Mapping[str, str] | None = None) -> str:
        """Says where `token` found it, for people; empty if there is none."""
        environment = os.environ if environ is None else environ
        context = self._context_with_token(environment)
        if context is not None:
            return f"{context.token_env or context.token_file}, as the context {context.name!r} says"
        for name in _TOKEN_VARIABLES:
            if given := environment.get(name):
                return f"{given}, which {name} names" if name.endswith("_FILE") else name
        path = token_path(self.address, environ=environment)
        return str(path) if path.exists() else ""

    def _context_with_token(self, environment: Mapping[str, str]) -> Context | None:
        context = self.context
        if context is None or not (context.token_file or context.token_env):
            return None
        if not self.is_context_flag and any(environment.get(name) for name in _TOKEN_VARIABLES):
            return None
        return context


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A server as the flags of a command name it; neither is set if none did."""

    address: str | None = None
    context: str | None = None

    @property
    def flag(self) -> str:
        """The flag to repeat in a command for typing, with a space before it; empty without any."""
        if self.address:
            return f" --address {shlex.quote(self.address)}"
        return f" --context {shlex.quote(self.context)}" if self.context else ""

    def choose(self, *, environ: Mapping[str, str] | None = None) -> Chosen:
        """Finds the server. Raises AddressError and ContextError."""
        environment = os.environ if environ is None else environ
        if self.address and self.context:
            raise ContextError("--address and --context both name a server; give one of them")
        if self.address:
            return Chosen(address=check_address(self.address, source="--address"), source="--address")
        if self.context:
            context = _read(environment, self.context, source="--context")
            return Chosen(address=context.address, source="--context", context=context, is_context_flag=True)
        if given := environment.get(ADDRESS_VARIABLE):
            return Chosen(address=check_address(given, source=ADDRESS_VARIABLE), source=ADDRESS_VARIABLE)
        if given := environment.get(CONTEXT_VARIABLE):
            context = _read(environment, given, source=CONTEXT_VARIABLE)
            return Chosen(address=context.address, source=CONTEXT_VARIABLE, context=context)
        contexts = read_contexts(contexts_path(environment))
        if contexts.current:
            context = contexts.by_name[contexts.current]
            return Chosen(address=context.address, source="the current context", context=context)
        return Chosen(address=DEFAULT_ADDRESS, source="the default")


def _read(environment: Mapping[str, str], name: str, *, source: str) -> Context:
    return read_contexts(contexts_path(environment)).named(name, source=source)
