"""Which results are turned into JSON without a thread."""

import pytest

from jackline_server.tools.results import is_small


class Big(dict[str, int]):
    """Says that it is huge, and lets nobody look inside."""

    def values(self) -> object:  # pyright: ignore[reportIncompatibleMethodOverride] - a trap
        raise AssertionError("it was looked at")


@pytest.mark.parametrize(
    "value",
    [None, True, 3, 2.5, "text", [], {}, {"a": [1, {"b": None}]}, ["x"] * 60, {"k" * 100: "v" * 3_000}],
    ids=repr,
)
def test_plain_json_of_little_is_small(value: object) -> None:
    assert is_small(value)


@pytest.mark.parametrize(
    "value",
    [
        ["x"] * 100,
        {str(number): number for number in range(100)},
        "x" * 5_000,
        {"k" * 5_000: 1},
        [["x"] * 30] * 3,
        (1, 2),
        {1, 2},
        object(),
        {"a": object()},
    ],
    ids=lambda value: type(value).__name__,
)
def test_much_of_it_or_anything_else_is_not(value: object) -> None:
    assert not is_small(value)


def test_a_value_that_holds_itself_is_not_followed_for_ever() -> None:
    ring: list[object] = []
    ring.append(ring)
    assert not is_small(ring)


def test_a_huge_value_is_not_looked_at_before_it_is_refused() -> None:
    """What is inside is only counted."""
    huge: list[object] = [0] * 5_000_000
    huge[0] = Big()
    assert not is_small(huge)
    assert not is_small({"inner": huge})
