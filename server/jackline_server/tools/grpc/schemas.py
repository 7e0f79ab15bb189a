"""A request message as JSON Schema: what the JSON mapping of protobuf takes, by the names of the proto.

Whole numbers of 64 bits are texts or numbers, bytes are base64, an enum is one of its names. Nothing is
required but what proto2 requires. A message that holds itself has no such schema, and neither has one that is
too large.
"""

from collections.abc import Callable, Mapping

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

from jackline_server.core.plan import JsonObject

MAX_NODES = 1_000
"""So many fields a request may have, those inside of it included."""

_MAX_DEPTH = 16
_MAX_ENUM = 500
_DURATION = r"^-?[0-9]{1,12}(\.[0-9]{1,9})?s$"
_SIGNED, _UNSIGNED = r"^-?[0-9]{1,19}$", r"^[0-9]{1,20}$"
_I32, _U32, _I64, _U64 = 2**31, 2**32, 2**63, 2**64


class NoSchema(ValueError):
    """The message has no schema that could be shown. The message of the error says why, in one line."""


def _integer(least: int, most: int) -> JsonObject:
    return {"type": "integer", "minimum": least, "maximum": most}


def _long(pattern: str, least: int, most: int) -> JsonObject:
    """A text is exact with every reader of JSON; a number is what models write."""
    return {"type": ["string", "integer"], "pattern": pattern, "minimum": least, "maximum": most}


def _bytes() -> JsonObject:
    return {"type": "string", "contentEncoding": "base64", "pattern": r"^[A-Za-z0-9+/_-]*={0,2}$"}


_SCALARS: Mapping[int, Callable[[], JsonObject]] = {
    FieldDescriptor.TYPE_DOUBLE: lambda: {"type": "number"},
    FieldDescriptor.TYPE_FLOAT: lambda: {"type": "number"},
    FieldDescriptor.TYPE_BOOL: lambda: {"type": "boolean"},
    FieldDescriptor.TYPE_STRING: lambda: {"type": "string"},
    FieldDescriptor.TYPE_BYTES: _bytes,
    **{
        kind: lambda: _integer(-_I32, _I32 - 1)
        for kind in (
            FieldDescriptor.TYPE_INT32,
            FieldDescriptor.TYPE_SINT32,
            FieldDescriptor.TYPE_SFIXED32,
        )
    },
    **{
        kind: lambda: _integer(0, _U32 - 1)
        for kind in (FieldDescriptor.TYPE_UINT32, FieldDescriptor.TYPE_FIXED32)
    },
    **{
        kind: lambda: _long(_SIGNED, -_I64, _I64 - 1)
        for kind in (
            FieldDescriptor.TYPE_INT64,
            FieldDescriptor.TYPE_SINT64,
            FieldDescriptor.TYPE_SFIXED64,
        )
    },
    **{
        kind: lambda: _long(_UNSIGNED, 0, _U64 - 1)
        for kind in (FieldDescriptor.TYPE_UINT64, FieldDescriptor.TYPE_FIXED64)
    },
}
_KNOWN: Mapping[str, Callable[[], JsonObject]] = {
    "Timestamp": lambda: {"type": "string", "format": "date-time"},
    "Duration": lambda: {"type": "string", "pattern": _DURATION},
    "FieldMask": lambda: {"type": "string"},
    "Struct": lambda: {"type": "object"},
    "Value": dict,
    "ListValue": lambda: {"type": "array"},
    "Empty": lambda: {"type": "object", "properties": {}, "additionalProperties": False},
    "Any": lambda: {
        "type": "object",
        "properties": {"@type": {"type": "string"}},
        "required": ["@type"],
    },
    "DoubleValue": lambda: {"type": "number"},
    "FloatValue": lambda: {"type": "number"},
    "BoolValue": lambda: {"type": "boolean"},
    "StringValue": lambda: {"type": "string"},
    "BytesValue": _bytes,
    "Int32Value": lambda: _integer(-_I32, _I32 - 1),
    "UInt32Value": lambda: _integer(0, _U32 - 1),
    "Int64Value": lambda: _long(_SIGNED, -_I64, _I64 - 1),
    "UInt64Value": lambda: _long(_UNSIGNED, 0, _U64 - 1),
}
_PACKAGE = "google.protobuf."


def schema_of(message: Descriptor, comments: Mapping[str, str]) -> JsonObject:
    """The schema of a request. Raises NoSchema."""
    schema = _Writer(comments).message(message)
    if schema.get("type") != "object":
        raise NoSchema(f"its request is a `{message.full_name}`, which is no object with fields")
    return schema


class _Writer:
    """One schema. Counts what it writes, so that no message grows beyond all bounds."""

    def __init__(self, comments: Mapping[str, str]) -> None:
        self._comments = comments
        self._left = MAX_NODES
        self._inside: list[str] = []

    def message(self, message: Descriptor) -> JsonObject:
        name = message.full_name
        known = _KNOWN.get(name.removeprefix(_PACKAGE)) if name.startswith(_PACKAGE) else None
        if known is not None:
            return known()
        if name in self._inside:
            raise NoSchema(f"its request has a `{name}` that holds itself, so that its schema has no end")
        if len(self._inside) >= _MAX_DEPTH:
            raise NoSchema(f"its request is nested more than {_MAX_DEPTH} levels deep")
        self._inside.append(name)
        schema: JsonObject = {
            "type": "object",
            "properties": {field.name: self._field(field) for field in message.fields},
            "additionalProperties": False,
        }
        if required := [field.name for field in message.fields if field.is_required]:
            schema["required"] = list(required)
        self._inside.pop()
        return schema

    def _field(self, field: FieldDescriptor) -> JsonObject:
        self._left -= 1
        if self._left < 0:
            raise NoSchema(f"its request has more than {MAX_NODES} fields")
        entry = field.message_type
        if entry is not None and entry.GetOptions().map_entry:
            schema: JsonObject = {
                "type": "object",
                "additionalProperties": self._value(entry.fields_by_name["value"]),
            }
        elif field.is_repeated:
            schema = {"type": "array", "items": self._value(field)}
        else:
            schema = self._value(field)
        said = [text for text in (self._comments.get(field.full_name, ""), _alternatives(field)) if text]
        return {**schema, "description": " ".join(said)} if said else schema

    def _value(self, field: FieldDescriptor) -> JsonObject:
        if field.type == FieldDescriptor.TYPE_GROUP:
            raise NoSchema(f"its field `{field.name}` is a group, which JSON has not")
        if field.enum_type is not None:
            return _enum(field.enum_type)
        if field.message_type is not None:
            return self.message(field.message_type)
        return _SCALARS[field.type]()


def _enum(enum: EnumDescriptor) -> JsonObject:
    if enum.full_name == "google.protobuf.NullValue":
        return {"type": "null"}
    if len(enum.values) > _MAX_ENUM:
        return {"type": "string"}
    return {"type": "string", "enum": [value.name for value in enum.values]}


def _alternatives(field: FieldDescriptor) -> str:
    """What is to be said of a field that excludes others."""
    choice = field.containing_oneof
    if choice is None or len(choice.fields) < 2:  # noqa: PLR2004 - one alone is how `optional` is written down
        return ""
    return f"At most one of: {', '.join(one.name for one in choice.fields)}."
