"""The core's instruments for tests: the real ones, because there is nothing to gain from others."""

from jackline_server.core.instruments import Instruments
from jackline_server.expressions.cel import CelExpressions
from jackline_server.expressions.schemas import JsonSchemas


def instruments() -> Instruments:
    """CEL and JSON Schema as the server uses them, with caches of their own."""
    return Instruments(expressions=CelExpressions(), schemas=JsonSchemas())
