"""Plain scalars by the core schema of YAML 1.2: `no`, `on`, `1:30` and `2020-01-01` are texts.

Owns which texts are null, booleans and numbers. Numbers with a fraction or exponent become Decimal, so that
money loses nothing on the way; JSON documents turn them into floats when they are written.
"""

import math
import re
from decimal import Decimal

Scalar = None | bool | int | Decimal | str

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = frozenset({"true", "True", "TRUE"})
_FALSE = frozenset({"false", "False", "FALSE"})
_INTEGER = re.compile(r"[-+]?[0-9]+")
_OCTAL = re.compile(r"0o[0-7]+")
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_LONGEST_NUMBER = 64


class ScalarError(ValueError):
    """A number that no file of ours can hold."""


def resolve(text: str) -> Scalar:
    """The value of a plain scalar. Raises ScalarError."""
    if text in _NULL:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if _NOT_FINITE.fullmatch(text):
        raise ScalarError("infinity and NaN are not allowed")
    for pattern, base in ((_INTEGER, 10), (_OCTAL, 8), (_HEXADECIMAL, 16)):
        if pattern.fullmatch(text):
            return int(_short(text), base)
    if _FLOAT.fullmatch(text):
        return _decimal(text)
    return text


def is_not_text(text: str) -> bool:
    """True if a plain scalar is null, a boolean or a number."""
    try:
        return not isinstance(resolve(text), str)
    except ScalarError:
        return True


def _short(text: str) -> str:
    if len(text) > _LONGEST_NUMBER:
        raise ScalarError(f"a number has more than {_LONGEST_NUMBER} characters")
    return text.replace("0o", "").replace("0x", "")


def _decimal(text: str) -> Decimal:
    if not math.isfinite(float(_short(text))):
        raise ScalarError("a number is too large")
    return Decimal(text)
