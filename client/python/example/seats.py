"""Serves three tools as a worker: `seats_left`, `reserve_seat` and `print_ticket`.

The first reads, the second counts once however often it is called with one call key, the third prints anew
each time. What it did stands in its own ledger, one JSON object a line. Environment, beside JACKLINE_ADDRESS
and JACKLINE_TOKEN:

    SEATS_POOL     the pool; seats unless set
    SEATS_LEDGER   the ledger; seats.jsonl unless set
    SEATS_WORKER   what the worker is called; the host and the process unless set
    SEATS_HOLD     a file: while it exists, no call that has begun ends. To see what a kill or a cancel does.

SIGTERM and SIGINT make it finish what it has begun.
"""

import asyncio
import json
import logging
import os
import re
import sys
import time
from pathlib import Path

from jackline_client.errors import CallError
from jackline_client.worker import Call, ToolFailed, TryAgain, Worker

SEATS_OF_A_PLANE = 30
HOLD_S = 0.02
LEDGER = Path(os.environ.get("SEATS_LEDGER", "seats.jsonl"))
HOLD = Path(os.environ.get("SEATS_HOLD", "/nonexistent"))

worker = Worker(os.environ.get("SEATS_POOL", "seats"), name=os.environ.get("SEATS_WORKER"), max_parallel=4)


@worker.tool(effect="read")
async def seats_left(flight: str, call: Call) -> dict[str, object]:
    """How many seats a flight has left."""
    flies(flight)
    taken = sum(line["tool"] == "reserve_seat" and line["flight"] == flight for line in lines())
    write("seats_left", call, flight=flight)
    await held(call)
    return {"flight": flight, "left": SEATS_OF_A_PLANE - taken}


@worker.tool(effect="idempotent")
async def reserve_seat(flight: str, seat: str, call: Call) -> dict[str, object]:
    """Reserves a seat of a flight."""
    flies(flight)
    reserved = [line for line in lines() if line["tool"] == "reserve_seat"]
    if not any(line["call_key"] == call.key for line in reserved):  # else an earlier attempt did it
        if any((line["flight"], line["seat"]) == (flight, seat) for line in reserved):
            raise ToolFailed(f"seat {seat} of {flight} is taken")
        write("reserve_seat", call, flight=flight, seat=seat)
    await held(call)
    return {"flight": flight, "seat": seat, "reservation": call.key}


@worker.tool(effect="write", max_parallel=1)  # there is one printer
def print_ticket(flight: str, seat: str, call: Call) -> str:
    """Prints a ticket for a seat of a flight."""
    flies(flight)
    write("print_ticket", call, flight=flight, seat=seat)
    call.progress("written down", 0.5)
    while is_held():
        call.progress("held")
        time.sleep(HOLD_S)
    return f"printed: {flight}, seat {seat}"


def flies(flight: str) -> None:
    """Some flights do not go well, to see what failures look like."""
    if re.fullmatch(r"JL[0-9]+", flight) is None:
        raise ToolFailed(f"there is no flight {flight!r}")
    if flight == "JL503":
        raise TryAgain("the reservation system is busy", retry_after_s=0.2)
    if flight == "JL500":
        raise LookupError(
            "login of seats with password `secret` failed"
        )  # nothing that anybody else may read


async def held(call: Call) -> None:
    """Ends at once, unless it is held."""
    call.progress("written down", 0.5)
    while is_held():
        call.progress("held")
        await asyncio.sleep(HOLD_S)


def is_held() -> bool:
    """Whether calls are kept from ending."""
    return HOLD.exists()


def lines() -> list[dict[str, str]]:
    """The ledger; a kill may have cut its last line."""
    written = LEDGER.read_text("utf-8").split("\n")[:-1] if LEDGER.exists() else []
    return [json.loads(line) for line in written]


def write(tool: str, call: Call, **what: str) -> None:
    """A line of the ledger."""
    line = {"tool": tool, "call_key": call.key, "attempt": call.attempt, "worker": worker.name, **what}
    with LEDGER.open("a", encoding="utf-8") as ledger:
        ledger.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    try:
        asyncio.run(worker.serve())
    except CallError as error:
        fields = [f"{one.field}: {one.description}" for one in error.field_violations]
        sys.exit("\n".join([error.code, error.reason, error.message, *fields]))
