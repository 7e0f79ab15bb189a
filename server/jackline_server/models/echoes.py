"""Secrets of ours that a provider sends back, taken out of its replies before anybody sees them.

Owns which values of a profile are secrets, and how one is found that comes in pieces. Pure. What stands in
an error is `redaction`'s.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from jackline_server.models.profile import ModelProfile
from jackline_server.runtime.ports.models import (
    EndChunk,
    ModelChunk,
    ReasoningChunk,
    TextChunk,
    ToolCallChunk,
)

MASK = "[redacted]"

_LEAST_CHARS = 8
"""A shorter value is no secret, and would tear holes into any text."""

_SECRET_NAMES = re.compile(r"auth|key|token|secret|password|credential|cookie|signature", re.IGNORECASE)
_SCHEME = re.compile(r"(?:bearer|basic|token)\s+", re.IGNORECASE)


def secrets_of(profile: ModelProfile, environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """What must not come back: the key, and what the headers prove who we are with.

    Without a key of the profile, the provider's library may have found one in the environment: with `environ`
    every value of it is one whose name says so.
    """
    found = [profile.api_key.reveal()] if profile.api_key else []
    found += [
        _SCHEME.sub("", value.reveal(), count=1)
        for name, value in profile.headers.items()
        if _SECRET_NAMES.search(name)
    ]
    if environ is not None and not profile.api_key and not profile.base_url:
        found += [value for name, value in environ.items() if _SECRET_NAMES.search(name)]
    return long_enough(found)


def long_enough(values: Iterable[str]) -> tuple[str, ...]:
    """Those that can be told from any other text, the longest first."""
    kept = {value.strip() for value in values}
    return tuple(sorted((value for value in kept if len(value) >= _LEAST_CHARS), key=len, reverse=True))


class _Channel:
    """One text that comes in pieces. What may be the beginning of a secret is held back until it is known."""

    __slots__ = ("_held", "_secrets")

    def __init__(self, secrets: tuple[str, ...]) -> None:
        self._secrets = secrets
        self._held = ""

    def take(self, text: str) -> str:
        text = masked(self._held + text, self._secrets)
        begins = self._begins(text)
        self._held = text[begins:]
        return text[:begins]

    def rest(self) -> str:
        """What was held back, at the end of all."""
        held, self._held = self._held, ""
        return held

    def _begins(self, text: str) -> int:
        """Where the longest end of the text stands that a secret begins with."""
        first = len(text)
        for secret in self._secrets:
            at = text.find(secret[0], max(len(text) - len(secret) + 1, 0))
            while 0 <= at < first:
                if secret.startswith(text[at:]):
                    first = at
                    break
                at = text.find(secret[0], at + 1)
        return first


class Echoes:
    """Takes the secrets out of one reply, chunk by chunk; with none it hands everything on. One an attempt.

    A piece of a text may come later than it was sent, and never out of its order within that text.
    """

    __slots__ = ("_calls", "_reasoning", "_secrets", "_text")

    def __init__(self, secrets: tuple[str, ...]) -> None:
        self._secrets = secrets
        self._text = _Channel(secrets)
        self._reasoning = _Channel(secrets)
        self._calls: dict[int, _Channel] = {}

    def pass_on(self, chunks: Iterable[ModelChunk]) -> Iterator[ModelChunk]:
        """The chunks as they may be seen; a part of one may be held back until the next or the end."""
        return self._passed(chunks) if self._secrets else iter(chunks)

    def _passed(self, chunks: Iterable[ModelChunk]) -> Iterator[ModelChunk]:
        for chunk in chunks:
            match chunk:
                case TextChunk():
                    if text := self._text.take(chunk.text):
                        yield TextChunk(text)
                case ReasoningChunk():
                    if text := self._reasoning.take(chunk.text):
                        yield ReasoningChunk(text)
                case ToolCallChunk():
                    yield self._call(chunk)
                case EndChunk():
                    yield from self._held()
                    yield replace(chunk, blocks_json=masked(chunk.blocks_json, self._secrets))

    def _call(self, chunk: ToolCallChunk) -> ToolCallChunk:
        channel = self._calls.get(chunk.index)
        if channel is None:
            channel = self._calls[chunk.index] = _Channel(self._secrets)
        return ToolCallChunk(
            index=chunk.index,
            call_id=masked(chunk.call_id, self._secrets),
            name=masked(chunk.name, self._secrets),
            arguments=channel.take(chunk.arguments),
        )

    def _held(self) -> Iterator[ModelChunk]:
        if text := self._reasoning.rest():
            yield ReasoningChunk(text)
        if text := self._text.rest():
            yield TextChunk(text)
        for index, channel in self._calls.items():
            if rest := channel.rest():
                yield ToolCallChunk(index=index, call_id="", name="", arguments=rest)


def masked(text: str, secrets: tuple[str, ...]) -> str:
    """The text without the secrets."""
    for secret in secrets:
        if secret in text:
            text = text.replace(secret, MASK)
    return text
