"""Messages as JSON lines: protobuf JSON with the contract's field names, in printable ASCII."""

import json

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message


def json_line(message: Message) -> str:
    """Encodes one message. 64-bit numbers are strings and bytes are base64, as protobuf JSON has it."""
    return json.dumps(MessageToDict(message, preserving_proto_field_name=True), separators=(",", ":"))
