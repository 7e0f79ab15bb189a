"""Log lines: JSON, one an event, on standard error.

Owns their form. Fields are capped, and JSON escapes what could break a line. Content of runs is never logged.
"""

import logging
import sys
from datetime import UTC, datetime
from typing import Any

from pythonjsonlogger.json import JsonFormatter

MAX_FIELD = 2_000


def configure_logs(*, level: int = logging.INFO) -> None:
    """Send everything that is logged in this process through one JSON formatter."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for noisy in ("asyncio", "LiteLLM", "httpx", "httpcore", "openai"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


class _Lines(JsonFormatter):
    """The line of one record: what happened, how bad it is, who says so, when, and what `extra` gave."""

    def add_fields(
        self, log_data: dict[str, Any], record: logging.LogRecord, message_dict: dict[str, Any]
    ) -> None:
        """Put the fields in their order."""
        log_data["event"] = record.getMessage()
        log_data["level"] = record.levelname.lower()
        log_data["logger"] = record.name
        log_data["timestamp"] = datetime.fromtimestamp(record.created, UTC).isoformat()
        super().add_fields(log_data, record, message_dict)
        for unwanted in ("message", "taskName"):
            log_data.pop(unwanted, None)
        if "exc_info" in log_data:
            log_data["exception"] = log_data.pop("exc_info")
        for name, value in log_data.items():
            if isinstance(value, str) and len(value) > MAX_FIELD:
                log_data[name] = f"{value[:MAX_FIELD]}... ({len(value)} characters)"
