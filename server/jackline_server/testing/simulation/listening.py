"""Hearing of the server's own bugs: what it logs as an error while a world is simulated."""

import logging
from collections.abc import Generator
from contextlib import contextmanager


class _Ear(logging.Handler):
    """Keeps what the server reports as an error; its warnings are what the weather brings."""

    def __init__(self) -> None:
        super().__init__(level=logging.ERROR)
        self.heard: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if not isinstance(error, RuntimeError) or "a bug of" not in str(error):
            self.heard.append(f"{record.getMessage()}: {error!r}")


@contextmanager
def listening() -> Generator[list[str]]:
    """What the server reports as errors meanwhile, but for those that the surroundings make."""
    log, ear = logging.getLogger("jackline_server"), _Ear()
    level, propagate = log.level, log.propagate
    log.addHandler(ear)
    log.setLevel(logging.ERROR)
    log.propagate = False
    try:
        yield ear.heard
    finally:
        log.removeHandler(ear)
        log.setLevel(level)
        log.propagate = propagate
