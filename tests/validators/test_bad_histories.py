"""Every validator rejects the histories that break its promise, and no other one does.

A file under `bad_histories` is named after the one validator that must reject it; `good` ones break nothing.
"""

from pathlib import Path

import pytest

from jackline_server.testing.validators import VALIDATORS, judge
from jackline_server.testing.validators.history import History, from_json, to_json

FILES = sorted((Path(__file__).parent / "bad_histories").glob("*.json"))
NAMES = [file.stem for file in FILES]
GUARANTEES = [
    "O1",
    "O2",
    "O3",
    "O4",
    "I1",
    "I2",
    "E1",
    "C1",
    "C2",
    "K1",
    "M1",
    "P1",
    "B1",
    "D2",
    "S1",
    "S2",
    "F1",
    "F2",
    "F3",
    "Q1",
    "Q2",
    "T1",
    "T2",
    "W1",
    "A1",
]


def read(name: str) -> History:
    return from_json((Path(__file__).parent / "bad_histories" / f"{name}.json").read_bytes())


def breaks(name: str, validator: str) -> bool:
    return name == validator or name.startswith(f"{validator}.")


@pytest.mark.parametrize("name", NAMES)
def test_a_history_is_rejected_by_exactly_the_validator_it_is_named_after(name: str) -> None:
    history = read(name)
    rejecting = {validator for validator, judged in VALIDATORS.items() if judged(history)}
    assert rejecting == {validator for validator in VALIDATORS if breaks(name, validator)}


@pytest.mark.parametrize("name", NAMES)
def test_a_violation_names_its_promise_and_says_what_happened(name: str) -> None:
    for violation in judge(read(name)):
        assert violation.guarantee == name.partition(".")[0]
        assert violation.sentence


@pytest.mark.parametrize("validator", VALIDATORS)
def test_every_validator_has_a_history_that_it_rejects(validator: str) -> None:
    assert any(breaks(name, validator) for name in NAMES)


def test_every_promise_about_histories_has_a_validator() -> None:
    assert {validator.partition(".")[0] for validator in VALIDATORS} == set(GUARANTEES)


@pytest.mark.parametrize("name", NAMES)
def test_a_history_survives_its_json_form(name: str) -> None:
    history = read(name)
    assert from_json(to_json(history)) == history


def test_an_empty_history_breaks_nothing() -> None:
    assert judge(History()) == []
