"""docs/webhooks.md: its receiver takes what is genuine and nothing else; its message has the real keys."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from jackline_server.egress.client import GuardedClients
from jackline_server.runtime.machine import SystemClock
from jackline_server.runtime.ports.http import Origin
from jackline_server.runtime.ports.webhooks import AttemptOutcome, WebhookEvent
from jackline_server.testing.harness import process
from jackline_server.webhooks.delivering import WAITS_MS
from jackline_server.webhooks.sending import EndpointSender
from tests.docs.pages import blocks, page, rows, section
from tests.webhooks.endpoints import OLD_SECRET, SECRET, endpoint
from tests.webhooks.test_telling import through, told, world

PAGE = page("webhooks.md")
BODY = b'{"type": "run.finished", "data": {"run_id": "run_a"}}'


@asynccontextmanager
async def receiver(folder: Path) -> AsyncGenerator[tuple[Origin, asyncio.StreamReader]]:
    """The page's receiver as a process; where it is and what it prints."""
    (program,) = blocks(PAGE, "python")
    file = folder / "receiver.py"
    file.write_text(program.code)
    running = await asyncio.create_subprocess_exec(
        sys.executable,
        str(file),
        "0",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, "WEBHOOK_SECRET": SECRET.reveal()},
    )
    try:
        assert running.stdout is not None
        port = int((await running.stdout.readline()).split()[-1])
        yield Origin(scheme="http", host="127.0.0.1", port=port), running.stdout
    finally:
        running.kill()
        await running.wait()


@pytest.mark.timeout(60)
async def test_the_receiver_takes_a_message_once_and_refuses_what_is_not_signed(tmp_path: Path) -> None:
    async with receiver(tmp_path) as (origin, printed), asyncio.timeout(40):
        sender = EndpointSender(endpoint(origin=origin), pools=GuardedClients(), clock=SystemClock())
        stranger = EndpointSender(
            endpoint(origin=origin, secrets=(OLD_SECRET,)), pools=GuardedClients(), clock=SystemClock()
        )
        try:
            refused = await stranger.send("msg_x", BODY)
            first, again = await sender.send("msg_a", BODY), await sender.send("msg_a", BODY)
            other = await sender.send("msg_b", BODY)
        finally:
            await sender.close()
            await stranger.close()
        lines = [await printed.readline(), await printed.readline()]

    assert (refused.outcome, refused.status) == (AttemptOutcome.REFUSED, 401)
    assert {one.outcome for one in (first, again, other)} == {AttemptOutcome.DELIVERED}
    assert lines == [b"run.finished run_a\n"] * 2


async def test_the_message_of_the_page_has_the_keys_of_a_real_one() -> None:
    (shown,) = blocks(PAGE, "json")
    here = world(endpoint())
    async with process(here) as jackline, asyncio.timeout(20):
        await through(jackline)
    real = (await told(here, "ops"))[-1]

    written = json.loads(shown.code)
    assert list(written) == list(real)
    assert set(written["data"]) == set(real["data"])
    assert set(written["data"]["outcome"]) == set(real["data"]["outcome"])


def test_the_page_has_every_type_and_every_wait() -> None:
    types = [cells[0].strip("`") for cells in rows(section(PAGE, "## What is sent"))]
    assert types == [event.value for event in WebhookEvent]
    words = {5_000: "5 s", 300_000: "5 min", 1_800_000: "30 min"}
    waits = [words.get(wait, f"{wait // 3_600_000} h") for wait in WAITS_MS]
    told = f"{', '.join(waits[:-1])} and {waits[-1]}"
    assert told in section(PAGE, "## What is promised")
