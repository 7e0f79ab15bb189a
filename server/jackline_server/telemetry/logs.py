"""Log lines: JSON, one an event, on standard error.

Owns their form. Fields are capped, and JSON escapes what could break a line. Content of runs is never logged.
"""

import logging
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

MAX_FIELD = 2_000


def configure_logs(*, level: int = logging.INFO) -> None:
    """Send everything that is logged in this process through one JSON formatter."""
    shared: list[Any] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        _cap,
    ]
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.JSONRenderer(ensure_ascii=True),
        ],
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for noisy in ("asyncio", "LiteLLM", "httpx", "httpcore", "openai"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def _cap(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for key, value in event.items():
        if isinstance(value, str) and len(value) > MAX_FIELD:
            event[key] = f"{value[:MAX_FIELD]}... ({len(value)} characters)"
    return event
