"""JSON Schema: checked when a plan is made, compiled once, in linear time afterwards.

Owns the only use of the validator's library, and the bound of what one validation costs: the library can't be
interrupted, and lists all errors or one. Does not own the budgets of a schema (`schema_walk`).
"""

from typing import cast

import jsonschema_rs

from jackline_server.core import json_text
from jackline_server.core.frozen import frozen
from jackline_server.core.instruments import Misfit
from jackline_server.core.plan import JsonValue
from jackline_server.expressions.schema_overlap import overlap
from jackline_server.expressions.schema_walk import MAX_BYTES, SchemaRefused, Where, check_schema
from jackline_server.expressions.sized_cache import SizedCache

CACHE_BYTES = 64 * 1024 * 1024
MOST_LOOKS = 1_500_000
"""How often parts of a schema may look at values in one validation; some 30 ns each."""
MOST_LISTED_LOOKS = 5_000
"""The same where all errors are wanted; up to 20 µs each."""

_MAX_PROBLEM = 400
_CHEAP_OVERLAP = 32
"""Up to here no value that the engine holds is counted first."""
_CHARACTERS_A_VALUE = 256
_BYTES_AN_ENTRY, _BYTES_A_CHARACTER = 8 * 1024, 32


@frozen
class _Compiled:
    validator: jsonschema_rs.Validator
    overlap: int


class JsonSchemas:
    """Implements the core's SchemaValidator. Safe to share between threads."""

    def __init__(self, *, cache_size: int = 512, cache_bytes: int = CACHE_BYTES) -> None:
        self._compiled = SizedCache(_weighed, entries=cache_size, most_bytes=cache_bytes)

    @property
    def kept_bytes(self) -> int:
        """What the compiled schemas take, roughly."""
        return self._compiled.size_bytes

    def problem(self, schema_json: str, value: JsonValue) -> str | None:
        """Say in one line why `value` does not fit, or return None if it does.

        A schema that `check` refuses fits nothing. The line may quote the value.
        """
        try:
            compiled = self._compiled(schema_json)
        except SchemaRefused as error:
            return f"the schema can't be used: {error}"
        if compiled.overlap > _CHEAP_OVERLAP and _size(value) * compiled.overlap > MOST_LOOKS:
            return "the value is too large to be checked against a schema of this size"
        try:
            compiled.validator.validate(value)
        except jsonschema_rs.ValidationError as error:
            return _line(error)
        except ValueError as error:
            return f"the value can't be checked: {error}"[:_MAX_PROBLEM]
        return None

    def problems(self, schema_json: str, value: JsonValue, *, most: int) -> tuple[Misfit, ...]:
        """Say why `value` does not fit, up to `most` reasons; none if it does.

        Large values are told their first problem only. The lines may quote the value.
        """
        first = self.problem(schema_json, value)
        if first is None:
            return ()
        try:
            compiled = self._compiled(schema_json)
            if _size(value) * compiled.overlap > MOST_LISTED_LOOKS:
                return (Misfit(path=(), problem=first),)
            errors = list(compiled.validator.iter_errors(value))[:most]
        except (SchemaRefused, ValueError):
            return (Misfit(path=(), problem=first),)
        return tuple(
            Misfit(path=tuple(error.instance_path), problem=_shortened(error.message)) for error in errors
        )

    def check(self, schema_json: str) -> str | None:
        """Say in one line why a schema is refused, or return None. For use when a plan is made."""
        try:
            self._compiled(schema_json)
        except SchemaRefused as error:
            return str(error)
        return None

    def refusal(self, schema_json: str) -> tuple[Where, str] | None:
        """Where in the schema something is refused, and why; None if nothing is."""
        try:
            self._compiled(schema_json)
        except SchemaRefused as error:
            return error.where, error.problem
        return None


def _weighed(schema_json: str) -> tuple[_Compiled, int]:
    compiled, patterns = _compile(schema_json)
    return compiled, _BYTES_AN_ENTRY + _BYTES_A_CHARACTER * (len(schema_json) + 8 * patterns)


def _compile(schema_json: str) -> tuple[_Compiled, int]:
    """The schema ready for use, and the size of its patterns. Raises SchemaRefused."""
    if len(schema_json.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise SchemaRefused(f"the schema is larger than {MAX_BYTES} bytes")
    try:
        schema = json_text.parse(schema_json)
    except json_text.JsonError as error:
        raise SchemaRefused(f"the schema is not JSON: {error}") from None
    patterns = check_schema(schema)
    try:
        validator = jsonschema_rs.validator_for(
            cast("dict[str, object]", schema), pattern_options=jsonschema_rs.RegexOptions(), offline=True
        )
    except jsonschema_rs.ValidationError as error:
        problem = f"the schema is not valid: {_shortened(error.message)}"
        raise SchemaRefused(problem, tuple(error.instance_path)) from None
    except (ValueError, TypeError, OverflowError, jsonschema_rs.ReferencingError) as error:
        raise SchemaRefused(f"the schema is not valid: {str(error).splitlines()[0][:200]}") from None
    return _Compiled(validator=validator, overlap=overlap(schema)), patterns


def _size(value: JsonValue) -> int:
    """How many values a document holds; a long text counts as several."""
    size = 0
    pending: list[JsonValue] = [value]
    while pending:
        item = pending.pop()
        size += 1
        match item:
            case str():
                size += len(item) // _CHARACTERS_A_VALUE
            case dict():
                size += len(item)
                pending.extend(item.values())
            case list():
                pending.extend(item)
            case _:
                pass
    return size


def _line(error: jsonschema_rs.ValidationError) -> str:
    place = "".join(f"/{part}" for part in error.instance_path)
    message = _shortened(error.message)
    return f"{place}: {message}" if place else message


def _shortened(text: str) -> str:
    message = " ".join(text.split())
    if len(message) > _MAX_PROBLEM:
        return f"{message[: _MAX_PROBLEM // 2]} … {message[-_MAX_PROBLEM // 4 :]}"
    return message
