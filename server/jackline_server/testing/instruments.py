"""The core's instruments for tests: the real ones, because there is nothing to gain from others."""

from jackline_server.core.instruments import Instruments
from jackline_server.expressions.cel import CelExpressions
from jackline_server.expressions.linear_regex import LinearPatterns
from jackline_server.expressions.schemas import JsonSchemas


def instruments() -> Instruments:
    """CEL, JSON Schema and RE2 as the server uses them, with caches of their own."""
    return Instruments(expressions=CelExpressions(), schemas=JsonSchemas(), patterns=LinearPatterns())
