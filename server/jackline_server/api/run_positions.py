"""Where a page of runs ended: creation time and id, as a page token carries them."""

from typing import cast

from jackline_server.core.plan import JsonValue
from jackline_server.runtime.ports.run_rows import RunRow


def run_position(row: RunRow) -> JsonValue:
    """The position right after this run."""
    return [row.created_unix_ms, row.run_id]


def read_run_position(position: JsonValue) -> tuple[int, str]:
    """The position back; the token was ours, so the shape is known."""
    created_unix_ms, run_id = cast(tuple[int, str], position)
    return created_unix_ms, run_id
