"""Names to addresses, once for each connection, and the sockets that only go to addresses which passed.

Owns the two places where an address is looked at: after resolving and, as the last word, where the socket
is made. Does not own the judgement (`policy`).
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence

from aiohttp.abc import AbstractResolver, ResolveResult

from jackline_server.runtime.ports.http import UNREACHABLE, HttpRefused

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Gives the addresses of a host, in order of preference. Raises OSError if there are none."""

Refusal = Callable[[str], str | None]
"""Says why an address is refused, or None."""

AddressInfo = tuple[int | socket.AddressFamily, int | socket.SocketKind, int, str, tuple[object, ...]]

MakeSocket = Callable[[AddressInfo], socket.socket]
"""Makes the socket for an address. Raises OSError."""


async def resolve_by_system(host: str, port: int) -> Sequence[str]:
    """Ask the system's resolver, which also reads every odd spelling of an address as one."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))


class PinnedResolver(AbstractResolver):
    """Gives the HTTP library the addresses that were checked, whatever it asks for."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses = tuple(addresses)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The checked addresses, of both families."""
        del family
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in self._addresses
        ]

    async def close(self) -> None:
        """Nothing to close."""


class CheckingResolver(AbstractResolver):
    """Resolves anew for each connection; a host has addresses only if every one of them may be reached."""

    def __init__(self, resolve: Resolve, refusal: Refusal) -> None:
        self._resolve = resolve
        self._refusal = refusal

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The addresses, of both families.

        Raises:
            OSError: there are none.
            HttpRefused: one of them may not be reached.
        """
        addresses = await self._resolve(host, port)
        for address in addresses:
            if (problem := self._refusal(address)) is not None:
                raise HttpRefused(UNREACHABLE, detail=f"{host}: {problem}")
        if not addresses:
            raise OSError("the host has no address")
        return await PinnedResolver(addresses).resolve(host, port, family)

    async def close(self) -> None:
        """Nothing to close."""


def system_socket(info: AddressInfo) -> socket.socket:
    """A plain socket for an address; the HTTP library makes it non-blocking."""
    family, kind, proto, _, _ = info
    return socket.socket(family, kind, proto)


def checked_sockets(refusal: Refusal, make: MakeSocket) -> MakeSocket:
    """A maker of sockets that looks at the address a socket is for, and makes none for a refused one.

    It raises PermissionError then, which the HTTP library takes for a failed connect.
    """

    def checked(info: AddressInfo) -> socket.socket:
        if (problem := refusal(str(info[4][0]))) is not None:
            raise PermissionError(problem)
        return make(info)

    return checked
