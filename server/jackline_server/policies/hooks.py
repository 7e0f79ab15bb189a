"""Asks hooks: Python classes of the operator's.

Owns what a hook is given, how it is run, and what its answer is to the one who asks. A method that is not
async runs in a thread. A hook in this process is the operator's own code; what it does to the process is not
contained here, and a thread that never returns keeps its place until it does.
"""

import asyncio
import contextvars
import inspect
import logging
import threading
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, cast

from jackline_server.core.gate_plans import Point
from jackline_server.core.plan import JsonValue
from jackline_server.hooks import Event, Proceed, Retry, Veto
from jackline_server.policies.hook_catalog import HookCatalog, HookProblem
from jackline_server.policies.timed import Timed
from jackline_server.runtime.ports.consultants import Consultation, ConsultReply

_CLOSE_SECONDS = 5

_log = logging.getLogger(__name__)


class HookConsultants:
    """Implements `Consultants` for hooks. At most `threads` methods that are not async run at once.

    `close` gives each hook that has a method `close` the chance to end in good order, for 5 s in all.
    """

    def __init__(self, catalog: HookCatalog, *, threads: int = 8) -> None:
        self._catalog = catalog
        self._timed = Timed()
        self._free = asyncio.Semaphore(threads)

    async def ask(self, question: Consultation) -> ConsultReply:
        """See `Consultants.ask`."""
        return await self._timed.ask(lambda: self._asked(question), timeout_ms=question.timeout_ms)

    async def _asked(self, question: Consultation) -> ConsultReply:
        try:
            name = question.target
            found = self._catalog.known(name) or await asyncio.to_thread(self._catalog.find, name)
        except HookProblem as problem:
            return ConsultReply(answer=None, error=str(problem))
        method = None if question.point is None else found.methods.get(question.point)
        if method is None:
            return ConsultReply(answer=None, error=f"the hook {question.target!r} has no such method")
        event = _event(question)
        try:
            if inspect.iscoroutinefunction(method):
                value = await method(event)
            else:
                value = await self._in_thread(lambda: method(event))
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - the question ends here; SystemExit must not end the server
            _log.warning(
                "a hook raised",
                extra={"run_id": question.run_id, "hook": name, "error_type": type(error).__name__},
                exc_info=error,
            )
            return ConsultReply(answer=None, error=f"it raised {type(error).__name__}")
        return _reply(value, question.point)

    async def _in_thread(self, work: Callable[[], object]) -> object:
        """Run the work in a thread of its own, in one of the free places; it is given back when it ends."""
        await self._free.acquire()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[tuple[object, BaseException | None]] = loop.create_future()

        def finish(value: object, error: BaseException | None) -> None:
            self._free.release()
            if not answer.done():
                answer.set_result((value, error))

        def run() -> None:
            value, failed = None, None
            try:
                value = work()
            except BaseException as error:  # noqa: BLE001 - the thread ends here; the waiter is told
                failed = error
            try:
                loop.call_soon_threadsafe(finish, value, failed)
            except RuntimeError:
                return  # the loop is closed: the server is gone and nobody waits

        context = contextvars.copy_context()
        # A daemon: a hook that never returns must not keep the server from ending.
        threading.Thread(target=context.run, args=(run,), name="jackline-hook", daemon=True).start()
        value, error = await answer
        if error is not None:
            raise error
        return value

    async def close(self) -> None:
        """End every hook that has a method `close`. Never raises but CancelledError."""
        for found in self._catalog.loaded:
            method = getattr(found.instance, "close", None)
            if callable(method):
                reply = await self._timed.ask(
                    lambda method=method: self._closed(method), timeout_ms=_CLOSE_SECONDS * 1000
                )
                if reply.answer is None:
                    _log.warning("a hook did not close", extra={"hook": found.declaration.name})

    async def _closed(self, method: Callable[[], object]) -> ConsultReply:
        if inspect.iscoroutinefunction(method):
            await method()
        else:
            await self._in_thread(method)
        return ConsultReply(answer=True)


def _event(question: Consultation) -> Event:
    place = question.place
    return Event(
        point="" if question.point is None else question.point.value,
        run_id=question.run_id,
        workflow=place.workflow,
        step=place.step_id,
        visit=place.visit,
        iteration=place.iteration,
        principal=place.principal,
        subject=_frozen_mapping(question.subject),
        values=_frozen_mapping(question.variables),
    )


def _frozen_mapping(values: Mapping[str, JsonValue]) -> Mapping[str, Any]:
    return MappingProxyType({name: _frozen(value) for name, value in values.items()})


def _frozen(value: JsonValue) -> object:
    match value:
        case dict():
            return _frozen_mapping(value)
        case list():
            return tuple(_frozen(item) for item in value)
        case _:
            return value


def _reply(value: object, point: Point | None) -> ConsultReply:
    match value:
        case None:
            return ConsultReply(answer=True)
        case Proceed(metadata=metadata):
            return _told(ConsultReply(answer=True), metadata)
        case Veto(reason=reason, metadata=metadata):
            if point is Point.AFTER_RUN:
                return ConsultReply(answer=None, error="the end of a run can't be vetoed")
            return _told(ConsultReply(answer=False, reason=str(reason)), metadata)
        case Retry(metadata=metadata):
            if point not in (Point.AFTER_MODEL_CALL, Point.AFTER_TOOL_CALL):
                return ConsultReply(answer=None, error="only a call that is just over can be made once more")
            return _told(ConsultReply(answer=True, retry=True), metadata)
        case _:
            return ConsultReply(answer=None, error=f"it answered with a {type(value).__name__}")


def _told(reply: ConsultReply, metadata: object) -> ConsultReply:
    if not isinstance(metadata, Mapping):
        return ConsultReply(answer=None, error="its metadata is no mapping")
    texts = cast("Mapping[object, object]", metadata)
    if not all(isinstance(name, str) and isinstance(value, str) for name, value in texts.items()):
        return ConsultReply(answer=None, error="its metadata holds what is no text")
    return ConsultReply(
        answer=reply.answer,
        reason=reply.reason,
        retry=reply.retry,
        metadata=cast("Mapping[str, str]", metadata),
    )
