"""Functions that behave."""

import os
import subprocess
from dataclasses import dataclass
from datetime import date
from enum import Enum
from functools import partial, wraps
from os.path import join
from subprocess import run
from typing import Annotated, Any

from pydantic import BaseModel, Field

from jackline_server.tools import ToolCall
from tests.tools.roots.allowed_not import neighbour

__all__ = ["join", "neighbour", "os", "run", "subprocess"]


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


class Address(BaseModel):
    street: str
    title: str = "home"


@dataclass
class Receipt:
    order: str
    day: date
    size: Size


def add(left: int, right: int = 2) -> int:
    """Adds two numbers.

    Args:
        left: the first
        right: the second
    """
    return left + right


async def ship(
    order: Annotated[str, Field(description="The order's id", max_length=8)],
    to: Address,
    day: date,
    size: Size = Size.SMALL,
    *,
    json: bool = False,
) -> Receipt:
    """Ships an order."""
    del to, json
    return Receipt(order=order, day=day, size=size)


def told(what: str, call: ToolCall) -> dict[str, Any]:
    """Says what it was told."""
    return {"what": what, "key": call.call_key, "run": call.run_id, "subject": dict(call.subject)}


_LOOKS_LIKE_A_SCHEMA = {"title": "Dr", "type": "object"}
_REFERS_TO_NOTHING = {"$ref": "#/$defs/Nothing"}


def send(
    to: Annotated[Address, Field(json_schema_extra={"properties": {"street": {"maxLength": 80}}})],
    names: dict[str, Any] = _LOOKS_LIKE_A_SCHEMA,
) -> None:
    """Sends a letter."""
    del to, names


def unspeakable(names: dict[str, Any] = _REFERS_TO_NOTHING) -> None:
    del names


def call_is_a_plain_argument(call: str) -> str:
    return call


def _private() -> None: ...  # pyright: ignore[reportUnusedFunction] - found by name or not at all


def unannotated(value):  # pyright: ignore[reportMissingParameterType, reportUnknownParameterType] - the case
    return value  # pyright: ignore[reportUnknownVariableType] - the case


def variadic(*values: int) -> int:
    return sum(values)


def not_json(file: os.DirEntry[str]) -> None:
    del file


class Node(BaseModel):
    children: list["Node"]


def recursive(node: Node) -> None:
    del node


def _wrapped(function: Any) -> Any:
    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


decorated = _wrapped(add)
smuggled = _wrapped(run)
applied = partial(add, 1)
anonymous_alias = os.getenv


class Speaker:
    def __call__(self) -> str:
        return "called"


an_object = Speaker()
