"""Messages as JSON lines: protobuf JSON with the contract's field names, in printable ASCII."""

import json

from google.protobuf.message import Message

from jackline_client.cli.forms import message_document


def json_line(message: Message) -> str:
    """Encodes one message. 64-bit numbers are strings and bytes are base64, as protobuf JSON has it."""
    return json.dumps(message_document(message), separators=(",", ":"))
