"""The adapter for litellm, in a server that may never call a model through it.

Owns when the adapter is brought in: with the first attempt, in a thread, because its HTTP library takes a
good part of what a server needs to start. litellm itself comes later still, as the adapter says.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING

from jackline_server.models.profile import ModelProfile
from jackline_server.runtime.ports.models import ModelChunk, ModelRequest

if TYPE_CHECKING:
    from jackline_server.models.litellm_adapter import LiteLLMModels


class LateLiteLLMModels:
    """Implements Models as `LiteLLMModels` does. Closed by whoever made it."""

    def __init__(self, *, profiles: Mapping[str, ModelProfile]) -> None:
        self._profiles = profiles
        self._made: LiteLLMModels | None = None
        self._making = asyncio.Lock()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
        """See Models."""
        async with self._making:
            if self._made is None:
                self._made = await asyncio.to_thread(self._make)
        async with aclosing(self._made.stream(request)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def close(self) -> None:
        """Close the adapter, if there is one."""
        if self._made is not None:
            await self._made.close()

    def _make(self) -> "LiteLLMModels":
        from jackline_server.models.litellm_adapter import (  # noqa: PLC0415 - it imports the HTTP library
            LiteLLMModels,
        )

        return LiteLLMModels(profiles=self._profiles)
