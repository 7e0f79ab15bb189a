"""Frozen values: what the core's shapes may be relied on for."""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from dataclasses import fields, replace

import pytest

from jackline_server.core.frozen import change, frozen


@frozen
class Berth:
    """A value with a default."""

    name: str
    depth: int = 7


@frozen
class Quay:
    """Another kind with the same fields."""

    name: str
    depth: int = 7


def test_a_value_is_made_by_keywords_with_its_defaults() -> None:
    assert (Berth(name="north").name, Berth(name="north").depth) == ("north", 7)
    for wrong in ({}, {"name": "north", "width": 3}):
        with pytest.raises(TypeError):
            Berth(**wrong)  # pyright: ignore[reportArgumentType] - the mistake is the point
    with pytest.raises(TypeError):
        Berth("north")  # pyright: ignore[reportCallIssue] - the mistake is the point


def test_the_type_checker_refuses_to_set_a_field() -> None:
    """And nothing else does. A comment that suppresses nothing is an error here: the line proves it."""
    berth = Berth(name="north")
    berth.depth = 8  # pyright: ignore[reportAttributeAccessIssue] - refused, as it has to be
    assert berth.depth == 8


def test_a_change_makes_another_value_and_leaves_the_first() -> None:
    berth = Berth(name="north")
    deeper = change(berth, depth=9)
    assert (berth.depth, deeper.depth, deeper.name) == (7, 9, "north")
    assert deeper == replace(berth, depth=9) == Berth(name="north", depth=9)


def test_a_change_of_a_field_that_is_not_there_is_refused() -> None:
    with pytest.raises(TypeError):
        change(Berth(name="north"), width=3)


def test_values_are_equal_by_kind_and_fields_and_hash_alike() -> None:
    berth = Berth(name="north")
    assert berth == Berth(name="north")
    assert hash(berth) == hash(change(Berth(name="south"), name="north"))
    assert berth != Berth(name="south")
    assert berth != Quay(name="north")


def test_a_value_shows_its_fields_and_tells_them_as_a_dataclass_does() -> None:
    assert repr(Berth(name="north")) == "Berth(name='north', depth=7)"
    assert [field.name for field in fields(Berth(name="north"))] == ["name", "depth"]


def test_what_a_copy_would_pass_by_is_refused() -> None:
    class Slotted:
        __slots__ = ("name",)

    class Checked:
        def __post_init__(self) -> None:
            """Would not run for a copy."""

    for kind in (Slotted, Checked):
        with pytest.raises(TypeError):
            frozen(kind)
