"""JSON Schema: checked when a plan is made, compiled once, in linear time afterwards.

Owns the only use of the validator's library. Does not own the budgets of a schema (`schema_walk`).
"""

from functools import lru_cache
from typing import cast

import jsonschema_rs

from jackline_server.core import json_text
from jackline_server.core.plan import JsonValue
from jackline_server.expressions.schema_walk import MAX_BYTES, SchemaRefused, check_schema

_MAX_PROBLEM = 400


class JsonSchemas:
    """Implements the core's SchemaValidator. Safe to share between threads."""

    def __init__(self, *, cache_size: int = 512) -> None:
        self._compiled = lru_cache(maxsize=cache_size)(_compile)

    def problem(self, schema_json: str, value: JsonValue) -> str | None:
        """Say in one line why `value` does not fit, or return None if it does.

        A schema that `check` refuses fits nothing. The line may quote the value.
        """
        try:
            validator = self._compiled(schema_json)
        except SchemaRefused as error:
            return f"the schema can't be used: {error}"
        try:
            validator.validate(value)
        except jsonschema_rs.ValidationError as error:
            return _line(error)
        except ValueError as error:
            return f"the value can't be checked: {error}"[:_MAX_PROBLEM]
        return None

    def check(self, schema_json: str) -> str | None:
        """Say in one line why a schema is refused, or return None. For use when a plan is made."""
        try:
            self._compiled(schema_json)
        except SchemaRefused as error:
            return str(error)
        return None


def _compile(schema_json: str) -> jsonschema_rs.Validator:
    if len(schema_json.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise SchemaRefused(f"the schema is larger than {MAX_BYTES} bytes")
    try:
        schema = json_text.parse(schema_json)
    except json_text.JsonError as error:
        raise SchemaRefused(f"the schema is not JSON: {error}") from None
    check_schema(schema)
    try:
        validator = jsonschema_rs.validator_for(
            cast("dict[str, object]", schema), pattern_options=jsonschema_rs.RegexOptions(), offline=True
        )
    except (ValueError, TypeError, OverflowError, jsonschema_rs.ReferencingError) as error:
        raise SchemaRefused(f"the schema is not valid: {str(error).splitlines()[0][:200]}") from None
    return validator


def _line(error: jsonschema_rs.ValidationError) -> str:
    place = "".join(f"/{part}" for part in error.instance_path)
    message = " ".join(error.message.split())
    if len(message) > _MAX_PROBLEM:
        message = f"{message[: _MAX_PROBLEM // 2]} … {message[-_MAX_PROBLEM // 4 :]}"
    return f"{place}: {message}" if place else message
