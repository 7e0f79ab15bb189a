"""`jackline health`: asks a server whether it serves, as a container's health check or a script does.

Owns that one question, by the standard health service, which needs no token. Does not own what health means:
that is `rpc`'s. It stands beside `commands`, because it runs every few seconds and needs neither the config
nor what reads it.
"""

import math
import os
import sys
from collections.abc import Mapping
from typing import Annotated, Any, NoReturn

import grpc
import typer
from grpc_health.v1 import health_pb2  # pyright: ignore[reportMissingTypeStubs] - it has none

EXIT_NOT_SERVING = 1
_DEFAULT = "127.0.0.1:50051"
_ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # noqa: S104 - compared with, not bound to
_messages: Any = health_pb2  # the library is not typed
_CHECK = "/grpc.health.v1.Health/Check"


def health(
    *,
    address: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="The server.  [default: JACKLINE_ADDRESS, JACKLINE_LISTEN]"),
    ] = None,
    timeout: Annotated[float, typer.Option(min=0.1, max=60, help="Seconds to wait for the answer.")] = 3.0,
) -> None:
    """Ask a server whether it serves: code 0 if it does, 1 if it drains, starts or is not there. No token."""
    if math.isnan(timeout):  # which is in no range and beyond none
        raise typer.BadParameter("--timeout nan: write seconds, from 0.1 to 60")
    server = address or served_address(os.environ)
    with grpc.insecure_channel(server, options=(("grpc.enable_http_proxy", 0),)) as channel:
        check: Any = channel.unary_unary(
            _CHECK,
            request_serializer=_messages.HealthCheckRequest.SerializeToString,
            response_deserializer=_messages.HealthCheckResponse.FromString,
        )
        try:
            status = check(_messages.HealthCheckRequest(), timeout=timeout, wait_for_ready=True).status
        except grpc.RpcError as error:
            failed: Any = error
            _fail(f"no answer from {server}: {failed.code().name}")
    if status != _messages.HealthCheckResponse.SERVING:
        _fail(f"{server} is {_messages.HealthCheckResponse.ServingStatus.Name(status)}")
    typer.echo("SERVING")


def served_address(environ: Mapping[str, str]) -> str:
    """Where a server of this environment is reached: one that listens on every address, on the loopback."""
    if named := environ.get("JACKLINE_ADDRESS"):
        return named
    host, _, port = environ.get("JACKLINE_LISTEN", _DEFAULT).rpartition(":")
    return f"{_ANY_ADDRESS.get(host, host)}:{port}"


def _fail(text: str) -> NoReturn:
    sys.stderr.write(f"jackline health: {text}\n")
    raise typer.Exit(EXIT_NOT_SERVING)
