"""`--deadline`: an instant that a person gives as a span from now, a time of day, or a date and time.

Owns reading it. Does not own whether the server takes it.
"""

import re
from datetime import UTC, datetime, time, timedelta

import typer

from jackline_client.cli.given import read_seconds

_SPAN = re.compile(r"[0-9]+[a-z]+")
_EXAMPLES = "write a span such as 15m, a time of day such as 18:30, or 2026-03-01T18:30+01:00"


def read_deadline(text: str, *, now: datetime) -> datetime:
    """The instant that is meant, with its zone.

    A span counts from `now`, which is aware; a time of day is the next such time. Without a zone of its own a
    time is of the zone of `now`.

    Raises:
        typer.BadParameter: it is none of these, or has passed.
    """
    if _SPAN.fullmatch(text):
        return _of_future(text, _after(text, now), now)
    try:
        found = _next(time.fromisoformat(text), now) if "-" not in text[:5] else datetime.fromisoformat(text)
        aware = found if found.tzinfo is not None else found.replace(tzinfo=now.tzinfo)
        aware.astimezone(UTC)  # which the first and the last days there are may have no time for
    except (ValueError, OverflowError):
        raise typer.BadParameter(f"--deadline {text!r}: {_EXAMPLES}") from None
    return _of_future(text, aware, now)


def _after(text: str, now: datetime) -> datetime:
    try:
        return now + timedelta(seconds=read_seconds(text, flag="--deadline"))
    except OverflowError:
        raise typer.BadParameter(f"--deadline {text!r} is too far away") from None


def _next(given: time, now: datetime) -> datetime:
    today = datetime.combine(now.date(), given, tzinfo=given.tzinfo or now.tzinfo)
    return today if today > now else today + timedelta(days=1)


def _of_future(text: str, found: datetime, now: datetime) -> datetime:
    if found <= now:
        raise typer.BadParameter(f"--deadline {text!r} has passed: it is {now:%Y-%m-%dT%H:%M:%S%z} now")
    return found
