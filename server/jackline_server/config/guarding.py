"""What is said of connections and data sources alike: how many calls one takes, when it is left alone."""

from jackline_server.config.section import Section
from jackline_server.runtime.ports.connection_guards import COOL_OFF_MS, FAILURES, Breaker

_MOST_FAILURES = 1_000
_MOST_CALLS = 1_000_000


def read_calls_per_minute(table: Section) -> int | None:
    """How many calls may begin in any minute; None is no limit."""
    return table.optional_integer("calls_per_minute", most=_MOST_CALLS)


def read_breaker(table: Section) -> Breaker:
    """After how many failures in a row nothing is called any more, and for how long."""
    breaker = table.table("breaker")
    if breaker is None:
        return Breaker()
    read = Breaker(
        failures=breaker.integer("failures", default=FAILURES, least=0, most=_MOST_FAILURES),
        cool_off_ms=breaker.span("cool_off", default_ms=COOL_OFF_MS),
    )
    breaker.finish()
    return read
