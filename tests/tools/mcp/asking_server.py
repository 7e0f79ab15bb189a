"""A server of the SDK's over stdio whose tool asks a person first, in whichever generation it is spoken to.

Each line of the ledger, the file of the first argument, is something that it did.
"""

import sys
from pathlib import Path
from typing import Annotated

from mcp.server import MCPServer
from mcp.server.mcpserver import AcceptedElicitation, Elicit, ElicitationResult, Resolve
from pydantic import BaseModel

LEDGER = Path(sys.argv[1])
server = MCPServer("asking")


class Guest(BaseModel):
    """What is asked."""

    name: str
    nights: int


def note(words: str) -> None:
    with LEDGER.open("a", encoding="utf-8") as file:
        file.write(f"{words}\n")


def guest(room: str) -> Elicit[Guest]:
    note(f"asks for {room}")
    return Elicit(message=f"Who stays in room {room}?", schema=Guest)


@server.tool()
def book(room: str, who: Annotated[ElicitationResult[Guest], Resolve(guest)]) -> str:
    """Books a room for somebody who is asked for."""
    if not isinstance(who, AcceptedElicitation):
        note("books nothing")
        return f"nothing was booked: {who.action}"
    note(f"books {room} for {who.data.name}")
    return f"{who.data.name} stays {who.data.nights} nights"


server.run()
