"""Serve tools to runs from a Python program.

    worker = Worker("support")

    @worker.tool(effect="read")
    async def lookup_order(order_id: str, call: Call) -> dict:
        "Looks up an order by its number."
        ...

    asyncio.run(worker.serve())

The worker connects to the server, registers its tools for a pool of the operator's config, and serves until
it is told to leave: by SIGTERM or SIGINT, or by `drain`. It reconnects by itself, and finishes what is in
flight.
"""

from jackline_client.worker.calls import Call, ToolFailed, ToolUncertain, TryAgain
from jackline_client.worker.serving import Worker

__all__ = ["Call", "ToolFailed", "ToolUncertain", "TryAgain", "Worker"]
