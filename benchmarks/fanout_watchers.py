"""Some of the watchers of `fanout`, in a process of their own.

Owns taking frames as fast as they come, and judging them afterwards: while it counts, it decodes nothing.
Each watcher follows a run from its first event to its end, as many times as the order says.
"""

import asyncio
import hashlib
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, cast

import grpc
import grpc.aio
import uvloop

from benchmarks.doors import channel_to
from benchmarks.histories import Watched, problems_of_watching
from benchmarks.looping import expected_of
from benchmarks.outside import read_order, say

Passes = list[list[bytes]]
"""The frames of each pass."""


async def watch(order: dict[str, Any]) -> None:
    """Connect, say so, wait for the word, watch, and tell what came."""
    async with channel_to(order["address"]) as channel:
        await channel.channel_ready()
        call = cast("Any", channel).unary_stream(
            order["method"]
        )  # without (de)serializers a message is its bytes
        metadata = grpc.aio.Metadata(("authorization", f"Bearer {order['token']}"))
        request = bytes.fromhex(order["request"])

        async def one() -> Passes:
            passes: Passes = []
            for _ in range(order["passes"]):
                frames: list[bytes] = []
                async for frame in call(request, metadata=metadata):
                    frames.append(frame)  # noqa: PERF401 - the loop is what is measured
                passes.append(frames)
            return passes

        say({"ready": True})
        await asyncio.to_thread(read_order)
        start = time.monotonic()
        taken = await asyncio.gather(*(one() for _ in range(order["watchers"])))
        end = time.monotonic()
    say({"start": start, "end": end, **judge(order["run_id"], order["turns"], taken)})


def judge(run_id: str, turns: int, taken: Sequence[Passes]) -> dict[str, Any]:
    """How many events came in all, what was wrong, and how many passes had which bytes.

    Passes that are the same to the byte are judged once.
    """
    expected, events, problems = expected_of(turns), 0, list[str]()
    known: dict[bytes, tuple[int, str]] = {}
    digests = Counter[str]()
    for frames in (frames for passes in taken for frames in passes):
        key = hashlib.sha256(b"".join(frames)).digest()
        if key not in known:
            watched = Watched(run_id=run_id, frames=frames)
            problems += problems_of_watching(watched, expected)
            seen = watched.events()
            known[key] = (len(seen), digest_of(seen))
        count, digest = known[key]
        events += count
        digests[digest] += 1
    return {
        "events": events,
        "frames": sum(len(frames) for passes in taken for frames in passes),
        "problems": problems,
        "digests": dict(digests),
    }


def digest_of(events: Sequence[bytes]) -> str:
    """One name for a sequence of encoded events."""
    digest = hashlib.sha256()
    for event in events:
        digest.update(len(event).to_bytes(8, "big"))
        digest.update(event)
    return digest.hexdigest()


if __name__ == "__main__":
    uvloop.run(watch(read_order()))
