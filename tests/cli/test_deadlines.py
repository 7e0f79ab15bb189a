"""`--deadline`: which instant a person means."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
import typer

from jackline_client.cli.deadlines import read_deadline

ZONE = timezone(timedelta(hours=2))
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=ZONE)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("15m", NOW + timedelta(minutes=15)),
        ("36h", NOW + timedelta(hours=36)),
        ("18:30", datetime(2026, 3, 1, 18, 30, tzinfo=ZONE)),
        ("11:59", datetime(2026, 3, 2, 11, 59, tzinfo=ZONE)),
        ("2026-03-05T08:00", datetime(2026, 3, 5, 8, 0, tzinfo=ZONE)),
        ("2026-03-05T08:00Z", datetime(2026, 3, 5, 8, 0, tzinfo=UTC)),
    ],
)
def test_a_span_a_time_of_day_and_a_date_are_instants(text: str, meant: datetime) -> None:
    assert read_deadline(text, now=NOW) == meant


@pytest.mark.parametrize(
    "text", ["soon", "15 m", "25:00", "2026-02-28T08:00", "0s", "999999999d", "9999-99-99", "-1"]
)
def test_what_is_no_instant_of_the_future_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        read_deadline(text, now=NOW)
