"""The life of a server process: signals, exit codes, the line that says where it listens.

Owns nothing that serves; that is `bootstrap`'s.
"""

import asyncio
import gc
import os
import signal
import sys
import threading

import uvloop

from jackline_server.bootstrap import running
from jackline_server.config import Config
from jackline_server.exit_codes import EXIT_ADDRESS_IN_USE, EXIT_STORE, EXIT_USAGE, store_code
from jackline_server.failpoints import BadSpecification
from jackline_server.folder import cannot_open
from jackline_server.identity.local_token import TokenFileRefused
from jackline_server.models.script import ScriptError
from jackline_server.rpc.server import AddressRefused
from jackline_server.runtime.ports.store_errors import StoreError
from jackline_server.telemetry.logs import configure_logs

_SWITCH_S = 0.001
"""How long a thread that computes (compiling, functions) may keep the event loop waiting when it wakes."""

_COLLECT_AFTER = 20_000
"""So many objects more than before let the collector look at the youngest."""

LINGER_S = 0.5
"""How long what is left of a stopped server may take to end by itself."""


def serve_until_stopped(config: Config) -> int:
    """Serve in an event loop of this thread until SIGTERM or SIGINT; the exit code."""
    configure_logs()
    sys.setswitchinterval(_SWITCH_S)
    return uvloop.run(_to_the_end(config))


async def _to_the_end(config: Config) -> int:
    """Serve, then see that nothing keeps the process alive: a tool may have swallowed its cancellation."""
    code = await _serve(config)
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    stubborn = (await asyncio.wait(rest, timeout=LINGER_S))[1] if rest else set[asyncio.Task[object]]()
    others = [thread for thread in threading.enumerate() if not thread.daemon]
    if stubborn or others != [threading.main_thread()]:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


async def _serve(config: Config) -> int:
    stopping, broken = asyncio.Event(), list[StoreError]()

    def on_broken(error: StoreError) -> None:
        broken.append(error)
        stopping.set()

    if problem := cannot_open(config.server.workflows):
        return _say(EXIT_USAGE, problem)
    _stop_on_signals(stopping)
    try:
        async with running(config, environ=os.environ, on_broken_store=on_broken) as server:
            _settle_heap()
            sys.stdout.write(f"listening on {server.address}\n")
            sys.stdout.flush()
            await stopping.wait()
    except StoreError as error:
        return _say(store_code(error), str(error))
    except AddressRefused as error:
        return _say(EXIT_ADDRESS_IN_USE, str(error))
    except (TokenFileRefused, ScriptError, BadSpecification) as error:
        return _say(EXIT_USAGE, str(error))
    if broken:
        return _say(EXIT_STORE, f"the store failed and no longer acknowledges: {broken[0]}")
    return 0


def _settle_heap() -> None:
    """Take what booting made out of the collector's sight, and switch it on again (`commands.serving`).

    A full collection stops every thread while it looks through all that there is, and most of that is code.
    The rest is values that refer to no cycle and go by themselves, so looking for cycles can be rare.
    """
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER, 20, 20)


def _say(code: int, text: str) -> int:
    sys.stderr.write(f"jackline serve: {text}\n")
    return code


def _stop_on_signals(stopping: asyncio.Event) -> None:
    """The first signal drains; a second ends the process at once, which loses nothing acknowledged."""
    loop = asyncio.get_running_loop()

    def stop() -> None:
        if stopping.is_set():
            os._exit(1)
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
