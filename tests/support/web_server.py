"""A small web server of a test, on loopback.

Owns its socket and its end. Does not own what it answers: a test or another double gives it an application.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from aiohttp import web


@asynccontextmanager
async def serving(app: web.Application, *, port: int = 0) -> AsyncGenerator[int]:
    """Serve for as long as the block runs; yields the port, a free one for 0.

    A handler is cancelled when its client goes away, and at the end of the block.
    """
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", port)
        await site.start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
