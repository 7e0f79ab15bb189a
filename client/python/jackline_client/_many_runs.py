"""The calls about many runs at once: one command to all that match, and the kill switch."""

import uuid
from collections.abc import AsyncGenerator, Iterable
from typing import TypedDict, Unpack

from jackline.v1 import bulk_control_pb2 as wire
from jackline.v1 import kill_switch_pb2 as switch_wire
from jackline.v1.control_pb2 import AbortCommand, AbortMode, SteerCommand
from jackline_client._connection import Connection
from jackline_client._paging import pages
from jackline_client._requests import RunFilter, check_options, timestamp


class BulkOptions(TypedDict, total=False):
    """What else may be said with a command to many runs; see BulkControlRequest."""

    request_id: str
    """Makes the commands idempotent; made by the library when left out."""
    reason: str
    """Why, for the record of each run."""
    preview: bool
    """Give no command: yield the runs that it would be for."""
    page_size: int
    """At most so many runs a call."""


class BulkCalls:
    """Reached as `JacklineClient.bulk`. Each yields what became of its command, run by run, newest first.

    `runs` is which: those that match and live. None is every run that lives. Runs that begin meanwhile are
    left alone. Whoever stops reading gives no further page the command. All take the `BulkOptions` as
    keywords, need the scope `runs:control` and raise `CallError` by reason; what one run refuses is in its
    result.
    """

    def __init__(self, *, connection: Connection, timeout_s: float) -> None:
        """Uses the client's connection, which the client closes."""
        self._connection = connection
        self._timeout_s = timeout_s

    def pause(
        self, runs: RunFilter | None, **options: Unpack[BulkOptions]
    ) -> AsyncGenerator[wire.BulkResult]:
        """Holds each run before its next call."""
        request = _request("pause", runs, options)
        request.pause.SetInParent()
        return self._send(request)

    def resume(
        self, runs: RunFilter | None, **options: Unpack[BulkOptions]
    ) -> AsyncGenerator[wire.BulkResult]:
        """Lets each paused run go on."""
        request = _request("resume", runs, options)
        request.resume.SetInParent()
        return self._send(request)

    def steer(
        self, runs: RunFilter | None, text: str, **options: Unpack[BulkOptions]
    ) -> AsyncGenerator[wire.BulkResult]:
        """Puts guidance into each conversation."""
        request = _request("steer", runs, options)
        request.steer.CopyFrom(SteerCommand(text=text))
        return self._send(request)

    def abort(
        self,
        runs: RunFilter | None,
        *,
        graceful: bool = False,
        skip_routes: bool = False,
        **options: Unpack[BulkOptions],
    ) -> AsyncGenerator[wire.BulkResult]:
        """Ends each run at once, or at its next boundary."""
        request = _request("abort", runs, options)
        mode = AbortMode.ABORT_MODE_GRACEFUL if graceful else AbortMode.ABORT_MODE_NOW
        request.abort.CopyFrom(AbortCommand(mode=mode, skip_routes=skip_routes))
        return self._send(request)

    def _send(self, request: wire.BulkControlRequest) -> AsyncGenerator[wire.BulkResult]:
        async def page(token: str) -> tuple[Iterable[wire.BulkResult], str]:
            request.page_token = token
            answer = await self._connection.call(
                self._connection.runs.BulkControl, request, timeout_s=self._timeout_s
            )
            return answer.results, answer.next_page_token

        return pages(page)


class KillSwitchCalls:
    """Reached as `JacklineClient.kill_switch`. All raise `CallError` by reason."""

    def __init__(self, *, connection: Connection, timeout_s: float) -> None:
        """Uses the client's connection, which the client closes."""
        self._connection = connection
        self._timeout_s = timeout_s

    async def engage(self, reason: str) -> switch_wire.KillSwitchResponse:
        """Lets no run of the tenant begin and ends every one that lives. Needs the scope `admin`."""
        return await self._act(switch_wire.KILL_SWITCH_ACTION_ENGAGE, reason)

    async def release(self, reason: str = "") -> switch_wire.KillSwitchResponse:
        """Lets runs begin again. Needs the scope `admin`."""
        return await self._act(switch_wire.KILL_SWITCH_ACTION_RELEASE, reason)

    async def get(self) -> switch_wire.GetKillSwitchResponse:
        """Says where the switch stands, and how many runs live."""
        return await self._connection.call(
            self._connection.runs.GetKillSwitch,
            switch_wire.GetKillSwitchRequest(),
            timeout_s=self._timeout_s,
        )

    async def _act(
        self, action: switch_wire.KillSwitchAction.ValueType, reason: str
    ) -> switch_wire.KillSwitchResponse:
        request = switch_wire.KillSwitchRequest(action=action, reason=reason)
        return await self._connection.call(
            self._connection.runs.KillSwitch, request, timeout_s=self._timeout_s
        )


def _request(method: str, runs: RunFilter | None, options: BulkOptions) -> wire.BulkControlRequest:
    """A request without its command; makes a request id if there is none. Raises TypeError."""
    check_options(method, options, BulkOptions)
    request = wire.BulkControlRequest(
        request_id=options.get("request_id") or uuid.uuid4().hex,
        reason=options.get("reason", ""),
        preview=options.get("preview", False),
        page_size=options.get("page_size", 0),
    )
    if runs is not None:
        request.filter.CopyFrom(
            wire.BulkFilter(
                states=runs.states,
                workflow=runs.workflow,
                labels=runs.labels,
                created_after=timestamp(runs.created_after) if runs.created_after else None,
                created_before=timestamp(runs.created_before) if runs.created_before else None,
                thread_id=runs.thread_id,
                parent_run_id=runs.parent_run_id,
            )
        )
    request.all_runs = runs is None
    return request
