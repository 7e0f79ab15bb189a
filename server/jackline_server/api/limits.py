"""Every size and count that a door enforces: the one table, printed by GetServerInfo.

A name ends with its unit. Bounds of a run are its workflow's and stand elsewhere. A request is read in the
event loop, so sizes and counts are what keeps the loop free: whatever passes them is read within some 50 ms.
"""

from collections.abc import Mapping
from dataclasses import asdict

from jackline_server.core.frozen import frozen

_KIB = 1024
_MIB = 1024 * _KIB


@frozen
class Limits:
    """The table; the defaults are the contract's."""

    message_bytes: int = 4 * _MIB
    request_bytes: int = 64 * _KIB
    start_request_bytes: int = 2 * _MIB
    fork_request_bytes: int = 128 * _KIB
    append_request_bytes: int = 512 * _KIB
    control_request_bytes: int = 512 * _KIB
    workflow_request_bytes: int = 512 * _KIB
    input_bytes: int = _MIB
    workflow_bytes: int = 256 * _KIB
    subject_bytes: int = 16 * _KIB
    subject_levels: int = 16
    json_levels: int = 100
    json_values_count: int = 20_000
    steer_bytes: int = 64 * _KIB
    answer_bytes: int = 64 * _KIB
    thread_message_bytes: int = 64 * _KIB
    tool_output_bytes: int = 256 * _KIB
    tool_error_bytes: int = 64 * _KIB
    reason_bytes: int = 4 * _KIB
    name_characters: int = 128
    request_id_characters: int = 128
    files_count: int = 200
    beside_count: int = 64
    states_count: int = 16
    kinds_count: int = 64
    positions_count: int = 2_000
    labels_count: int = 32
    thread_messages_count: int = 100
    label_key_characters: int = 63
    label_value_characters: int = 255
    page_default_count: int = 50
    page_most_count: int = 500
    result_bytes: int = 256 * _KIB
    frame_bytes: int = 256 * _KIB
    connection_streams_count: int = 128
    principal_streams_count: int = 100
    call_seconds: int = 30
    wait_seconds: int = 3600
    stall_seconds: int = 300

    def published(self) -> Mapping[str, int]:
        """All of them by name."""
        return asdict(self)


LIMITS = Limits()
