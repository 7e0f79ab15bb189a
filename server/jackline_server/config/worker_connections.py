"""Connections of kind `worker`: pools of tools that connected programs serve.

Owns what an operator says about one: who may serve what, and how long is waited for whom.
"""

import re

from jackline_server.config.guarding import read_breaker, read_calls_per_minute
from jackline_server.config.problems import ProblemCode
from jackline_server.config.section import Section
from jackline_server.runtime.ports.workers import WorkerConnection

_TOOL = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}", re.ASCII)


def read_worker(name: str, table: Section) -> WorkerConnection:
    """The connection."""
    allow, principals = table.texts("allow"), table.texts("principals")
    for tool in allow:
        if _TOOL.fullmatch(tool) is None:
            words = f"{table.quoted('allow', tool)} is no tool's name: a letter, then letters, digits, _ - ."
            table.problem(ProblemCode.BAD_VALUE, "allow", words)
    heartbeat_ms = table.span("heartbeat", default_ms=10_000, most_ms=300_000)
    if heartbeat_ms < 1_000:  # noqa: PLR2004 - a second: less is noise
        table.problem(ProblemCode.BAD_VALUE, "heartbeat", "is at least 1s")
    return WorkerConnection(
        name=name,
        allow=frozenset(allow) if table.has_seen("allow") else None,
        principals=frozenset(principals) if table.has_seen("principals") else None,
        trusted=table.boolean("trusted", default=True) is not False,
        wait_ms=table.span("wait", default_ms=30_000),
        timeout_ms=table.span("timeout", default_ms=300_000),
        heartbeat_ms=heartbeat_ms,
        resume_grace_ms=table.span("resume_grace", default_ms=15_000, most_ms=3_600_000),
        most_workers=table.integer("most_workers", default=64, least=1, most=10_000),
        concurrency=table.integer("concurrency", default=256, least=1, most=10_000),
        calls_per_minute=read_calls_per_minute(table),
        breaker=read_breaker(table),
    )
