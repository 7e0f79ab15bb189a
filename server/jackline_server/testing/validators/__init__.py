"""Judges of recorded histories: one for each guarantee, as pure functions.

A history says what was seen; a validator says which promise it breaks. None of them knows how the server
works, so the same ones judge the simulator, a real process and a soak.
"""

from collections.abc import Callable, Mapping

from jackline_server.testing.validators import (
    approvals,
    cancelling,
    commanding,
    families,
    log,
    owners,
    questions,
    requests,
    spending,
    streams,
    supervision,
    switching,
    threads,
    waiting,
)
from jackline_server.testing.validators.history import History, Violation

Validator = Callable[[History], list[Violation]]

VALIDATORS: Mapping[str, Validator] = {
    "O1": log.o1,
    "O2.ordered": streams.ordered,
    "O2.unique": streams.unique,
    "O2.reliable": streams.reliable,
    "O2.atomic": streams.atomic,
    "O2.resumable": streams.resumable,
    "O2.bookmarkable": streams.bookmarkable,
    "O3": log.o3,
    "O4": streams.o4,
    "I1": requests.i1,
    "I2": requests.i2,
    "E1": log.e1,
    "C1": cancelling.c1,
    "C2": owners.c2,
    "K1": switching.k1,
    "M1": commanding.m1,
    "P1": waiting.p1,
    "B1": spending.b1,
    "D2": streams.d2,
    "S1": spending.s1,
    "S2": spending.s2,
    "F1": families.f1,
    "F2": families.f2,
    "F3": families.f3,
    "Q1": questions.q1,
    "Q2": questions.q2,
    "T1": threads.t1,
    "T2": threads.t2,
    "W1": supervision.w1,
    "A1": approvals.a1,
}
"""Every validator by the promise it judges, and its part."""


def judge(history: History) -> list[Violation]:
    """What every validator finds."""
    return [violation for validator in VALIDATORS.values() for violation in validator(history)]
