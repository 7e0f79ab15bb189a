"""The W3C trace context that goes with a call: one trace for a run, one span for an attempt."""

import hashlib

from jackline_server.runtime.ports.tools import Invocation


def traceparent(invocation: Invocation) -> str:
    """The header's value, the same for the same attempt."""
    trace = hashlib.sha256(invocation.run_id.encode()).hexdigest()[:32]
    span = hashlib.sha256(f"{invocation.call_key} {invocation.attempt}".encode()).hexdigest()[:16]
    return f"00-{trace}-{span}-01"
