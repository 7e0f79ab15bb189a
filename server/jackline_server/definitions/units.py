"""Durations, money and other scalars of a workflow, read without coercion.

Owns the types that the shapes are made of: each says what it wants in the words of the file. Does not own
which key has which type.
"""

import re
from decimal import Decimal
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from jackline_server.core.blank_text import is_blank

MAX_DURATION_MS = 30 * 24 * 3_600_000
MAX_MICROS = 10**12
MAX_TOKENS = 10**12

_UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)(ms|s|m|h|d)")
_MICROS = Decimal(1_000_000)
_POINTER = re.compile(r"(?:/(?:[^/~]|~[01])*)+")


def _milliseconds(value: object) -> int:
    found = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise PydanticCustomError("bad_duration", "a duration is a number with its unit: 500ms, 90s, 15m, 2h")
    amount = Decimal(found[1]) * _UNITS[found[2]]
    if amount != int(amount) or not 0 < amount <= MAX_DURATION_MS:
        raise PydanticCustomError("bad_duration", "a duration is a whole number of ms, from 1ms to 30d")
    return int(amount)


def _micros(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise PydanticCustomError("bad_money", "an amount of US dollars is a number such as 0.50")
    amount = Decimal(value) * _MICROS
    if not 0 <= amount <= MAX_MICROS or amount != int(amount):
        raise PydanticCustomError(
            "bad_money", "an amount of US dollars is from 0 to 1000000, with at most six decimals"
        )
    return int(amount)


def _permille(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise PydanticCustomError("bad_share", "a share is a number from 0 to 1, such as 0.65")
    amount = Decimal(value) * 1_000
    if not 0 <= amount <= 1_000 or amount != int(amount):  # noqa: PLR2004  # a thousand thousandths are the whole
        raise PydanticCustomError("bad_share", "a share is from 0 to 1, with at most three decimals")
    return int(amount)


def _pointer(value: object) -> str:
    if not isinstance(value, str) or not is_pointer(value):
        raise PydanticCustomError(
            "bad_pointer", "a JSON pointer begins with `/`, such as /input/message (RFC 6901)"
        )
    return value


def _says_something(value: str) -> str:
    if is_blank(value):
        raise PydanticCustomError("blank_text", "this text says nothing: white space alone")
    return value


def is_pointer(text: str) -> bool:
    """True for a JSON pointer of RFC 6901 to something inside the context."""
    return len(text) <= 512 and _POINTER.fullmatch(text) is not None  # noqa: PLR2004  # a path


# The schemas say what stands in the file, which is not what is made of it.
Milliseconds = Annotated[
    int,
    BeforeValidator(_milliseconds),
    WithJsonSchema(
        {"type": "string", "pattern": f"^{_DURATION.pattern}$", "examples": ["500ms", "90s", "15m", "2h"]}
    ),
]
Micros = Annotated[
    int,
    BeforeValidator(_micros),
    WithJsonSchema({"type": "number", "minimum": 0, "maximum": MAX_MICROS // 1_000_000, "examples": [0.5]}),
]
Pointer = Annotated[
    str,
    BeforeValidator(_pointer),
    WithJsonSchema(
        {
            "type": "string",
            "maxLength": 512,
            "pattern": f"^{_POINTER.pattern}$",
            "examples": ["/input/message"],
        }
    ),
]
Share = Annotated[
    int,
    BeforeValidator(_permille),
    WithJsonSchema({"type": "number", "minimum": 0, "maximum": 1, "examples": [0.65]}),
]
Count = Annotated[int, Field(ge=0, le=100_000)]
Positive = Annotated[int, Field(ge=1, le=100_000)]
Tokens = Annotated[int, Field(ge=0, le=MAX_TOKENS)]
StepName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,62}$")]
Text = Annotated[str, Field(max_length=100_000)]
SAYS_SOMETHING = AfterValidator(_says_something)
"""For a text that has to be there: white space alone is none."""
Line = Annotated[str, Field(min_length=1, max_length=2_000), SAYS_SOMETHING]
InputName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,62}$")]


def is_signal(text: str) -> bool:
    """True for a name that an outcome or a condition may give."""
    return re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]{0,62}", text) is not None
