"""Checks of one request: every field that breaks its rule is found before anything is refused.

Owns the collecting and the rules for single values. Which field has which rule is in `run_requests` and
`workflow_requests`.
"""

import re
from collections.abc import Mapping

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp
from google.protobuf.unknown_fields import UnknownFieldSet

from jackline_server.api.limits import LIMITS
from jackline_server.api.refusals import DoorReason, DoorRefused
from jackline_server.codec.values import milliseconds
from jackline_server.core.blank_text import is_blank
from jackline_server.runtime.ports.workers import MOST_INVOCATIONS, MOST_TOOLS
from jackline_server.runtime.refusals import Violation

RUN_ID = re.compile(r"run_[0-9a-z]{26}")
NAME = re.compile(rf"[!-~]{{1,{LIMITS.name_characters}}}")
REQUEST_ID = re.compile(rf"[!-~]{{1,{LIMITS.request_id_characters}}}")
LABEL_KEY = re.compile(rf"[a-z0-9_./-]{{1,{LIMITS.label_key_characters}}}")

MOST_SEQUENCE = 2**63 - 1
_MOST_COUNT = 2**53
_MOST_SECONDS = 315_576_000_000
_LEAST_TIME, _MOST_TIME = -62_135_596_800, 253_402_300_799
_NANOS = 1_000_000_000
_TOO_LARGE = "TOO_LARGE"

COUNTS: Mapping[str, int] = {
    "jackline.v1.InlineWorkflow.files": LIMITS.files_count,
    "jackline.v1.ValidateWorkflowRequest.beside": LIMITS.beside_count,
    "jackline.v1.StartRunRequest.labels": LIMITS.labels_count,
    "jackline.v1.ForkChanges.labels": LIMITS.labels_count,
    "jackline.v1.AppendMessagesRequest.messages": LIMITS.thread_messages_count,
    "jackline.v1.ListRunsRequest.labels": LIMITS.labels_count,
    "jackline.v1.ListRunsRequest.states": LIMITS.states_count,
    "jackline.v1.BulkFilter.labels": LIMITS.labels_count,
    "jackline.v1.BulkFilter.states": LIMITS.states_count,
    "jackline.v1.StreamProgressRequest.kinds": LIMITS.kinds_count,
    "jackline.v1.StreamProgressRequest.positions": LIMITS.positions_count,
    "jackline.v1.RegisterWorker.tools": MOST_TOOLS,
    "jackline.v1.RegisterWorker.invocations": MOST_INVOCATIONS,
}
"""How many entries each list and map of a request may have. One that is not in here may have none."""


class Checks:
    """What is wrong with one request so far."""

    __slots__ = ("_found", "_large")

    def __init__(self) -> None:
        self._found: list[Violation] = []
        self._large: tuple[str, int, int] | None = None

    def fail(self, field: str, description: str, reason: str) -> None:
        """Note that a field breaks a rule."""
        self._found.append(Violation(field=field, description=description, reason=reason))

    def finish(self) -> None:
        """Refuse the request if anything was noted.

        Raises:
            DoorRefused: FIELD_TOO_LARGE if nothing but sizes is wrong, else INVALID_REQUEST.
        """
        if not self._found:
            return
        if self._large is not None and all(one.reason == _TOO_LARGE for one in self._found):
            field, size, limit = self._large
            raise DoorRefused(
                DoorReason.FIELD_TOO_LARGE,
                f"{field} has {size} bytes and may have {limit}. Send less.",
                metadata={"field": field, "size": str(size), "limit": str(limit)},
                violations=tuple(self._found),
            )
        if len(self._found) > 1:
            message = "Fields break their rules. The details list every one; correct them and send again."
        else:
            one = self._found[0]
            message = f"{one.field}: {one.description}. Correct it and send again."
        raise DoorRefused(
            DoorReason.INVALID_REQUEST,
            message,
            violations=tuple(self._found),
        )

    def size(self, field: str, size: int, limit: int) -> bool:
        """Note a size that is over its limit; true if it is not."""
        if size <= limit:
            return True
        self._large = self._large or (field, size, limit)
        self.fail(field, f"has {size} bytes, at most {limit}", _TOO_LARGE)
        return False

    def text(self, field: str, value: str, limit: int, *, required: bool = False) -> None:
        """Note a text that is too long, or, where one is required, that says nothing."""
        if required and is_blank(value):
            self.fail(field, "required: white space alone says nothing" if value else "required", "REQUIRED")
        self.size(field, len(value.encode()), limit)

    def run_id(self, field: str, value: str) -> None:
        """Note an id that this server can't have made."""
        if not RUN_ID.fullmatch(value):
            self.fail(field, "must be `run_` and 26 characters of 0-9 and a-z", "FORMAT")

    def name(self, field: str, value: str, *, required: bool = True) -> None:
        """Note a name with other than printable ASCII, or none at all."""
        if not value:
            if required:
                self.fail(field, "required", "REQUIRED")
        elif not NAME.fullmatch(value):
            self.fail(field, f"must be 1 to {LIMITS.name_characters} printable ASCII, no spaces", "FORMAT")

    def idempotency_key(self, field: str, value: str) -> None:
        """Note a request or command id that is neither empty nor well formed."""
        if value and not REQUEST_ID.fullmatch(value):
            self.fail(
                field, f"must be 1 to {LIMITS.request_id_characters} printable ASCII, no spaces", "FORMAT"
            )

    def sequence(self, field: str, value: int) -> None:
        """Note a sequence that no log can reach; a negative one arrives as such."""
        if value > MOST_SEQUENCE:
            self.fail(field, "must not be negative or above 2^63 - 1", "OUT_OF_RANGE")

    def duration(self, field: str, value: Duration, *, least_ms: int = 0) -> int:
        """The span in milliseconds; notes one that is out of range or too short."""
        if abs(value.seconds) > _MOST_SECONDS or abs(value.nanos) >= _NANOS:
            self.fail(field, "not a duration: seconds or nanos out of range", "OUT_OF_RANGE")
            return 0
        ms = milliseconds(value)
        if ms < least_ms or value.nanos < 0:
            self.fail(field, f"must be at least {least_ms} ms", "OUT_OF_RANGE")
        return ms

    def count(self, field: str, value: int, *, least: int) -> int:
        """The number; notes one that is too small, or beyond what any run could reach."""
        if not least <= value <= _MOST_COUNT:
            self.fail(field, f"must be from {least} to {_MOST_COUNT}", "OUT_OF_RANGE")
        return value

    def time(self, field: str, value: Timestamp) -> int | None:
        """The time in Unix milliseconds; notes one that is out of range, and answers None."""
        if not (_LEAST_TIME <= value.seconds <= _MOST_TIME and 0 <= value.nanos < _NANOS):
            self.fail(field, "not a time: seconds or nanos out of range", "OUT_OF_RANGE")
            return None
        return milliseconds(value)

    def labels(self, field: str, labels: Mapping[str, str]) -> None:
        """Note labels whose keys or values break their rules."""
        for key, value in labels.items():
            here = f'{field}["{key[:40]}"]'
            if not LABEL_KEY.fullmatch(key):
                most = LIMITS.label_key_characters
                self.fail(here, f"a key must be 1 to {most} characters of a-z, 0-9, _./-", "FORMAT")
            if len(value) > LIMITS.label_value_characters:
                self.fail(here, f"at most {LIMITS.label_value_characters} characters", "TOO_LONG")

    def page_size(self, field: str, value: int) -> int:
        """How many to answer with: the default for 0, clipped to the most; notes a negative one."""
        if value < 0:
            self.fail(field, "must not be negative", "OUT_OF_RANGE")
        return min(value or LIMITS.page_default_count, LIMITS.page_most_count)

    def well_formed(self, message: Message) -> None:
        """Note every NUL in a string and every enum value that is not of this version, at any depth.

        Call it first: what has too many entries is refused at once, before anything goes through them.

        Raises:
            DoorRefused: INVALID_REQUEST, a list or map is longer than it may be.
        """
        self._count(message, "")
        self.finish()
        self._contents(message, "")

    def understood(self, field: str, message: Message) -> None:
        """Note fields that this version does not know, where overlooking a condition means more, not less."""
        if len(UnknownFieldSet(message)):
            self.fail(field, "says something that this version does not know", "UNKNOWN_FIELD")

    def _count(self, message: Message, path: str) -> None:
        for field, value in message.ListFields():
            here = f"{path}{field.name}"
            if field.is_repeated:
                most = COUNTS.get(field.full_name, 0)
                if len(value) > most:
                    self.fail(here, f"has {len(value)} entries, at most {most}", "TOO_MANY")
            elif isinstance(value, Message) and not isinstance(value, Struct):
                self._count(value, f"{here}.")

    def _contents(self, message: Message, path: str) -> None:
        for field, value in message.ListFields():
            here = f"{path}{field.name}"
            if field.message_type is not None and field.message_type.GetOptions().map_entry:
                self._map(field, value, here)
            elif field.is_repeated:
                for index, item in enumerate(value):
                    self._value(field, item, f"{here}[{index}]")
            else:
                self._value(field, value, here)

    def _map(self, field: FieldDescriptor, entries: dict[str, object], here: str) -> None:
        entry = field.message_type
        if entry is None:
            return
        values = entry.fields_by_name["value"]
        for key, value in entries.items():
            if "\0" in key:
                self.fail(here, "a key holds a NUL character", "NUL")
            self._value(values, value, f'{here}["{key[:40]}"]')

    def _value(self, field: FieldDescriptor, value: object, here: str) -> None:
        if isinstance(value, Struct):
            return  # read, and checked, as JSON
        if isinstance(value, Message):
            self._contents(value, f"{here}.")
        elif isinstance(value, str):
            if "\0" in value:
                self.fail(here, "holds a NUL character", "NUL")
        elif field.enum_type is not None and value not in field.enum_type.values_by_number:
            self.fail(here, f"{value} is no value of this version", "UNKNOWN_VALUE")
