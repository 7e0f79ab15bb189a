"""What a request id stands for: the SHA-256 of the request as it was sent, in one canonical form.

Unknown fields and the request id itself do not count. The request is one that passed its checks.
"""

import hashlib
import json
from collections.abc import Mapping

from google.protobuf.json_format import MessageToDict

from jackline.v1 import run_service_pb2

_AS_TEXT = ("input", "input_json", "subject")


def fingerprint(request: run_service_pb2.StartRunRequest, *, input_json: str, subject_json: str) -> bytes:
    """The fingerprint, 32 bytes: equal for requests that ask for the same.

    `input_json` and `subject_json` are what the request's input and subject were read as: turning them into
    text a second time would take as long as all the rest.
    """
    rest = run_service_pb2.StartRunRequest()
    rest.CopyFrom(request)
    for name in ("request_id", *_AS_TEXT):
        rest.ClearField(name)
    sent = MessageToDict(rest, preserving_proto_field_name=True)
    sent["subject"] = subject_json
    sent[request.WhichOneof("input_value") or "input"] = input_json
    return _digest(sent)


def fork_fingerprint(request: run_service_pb2.ForkRunRequest) -> bytes:
    """The same for a fork; a start never has it."""
    rest = run_service_pb2.ForkRunRequest()
    rest.CopyFrom(request)
    rest.ClearField("request_id")
    return _digest({"method": "ForkRun", **MessageToDict(rest, preserving_proto_field_name=True)})


def append_fingerprint(request: run_service_pb2.AppendMessagesRequest) -> bytes:
    """The same for messages that are appended to a thread."""
    rest = run_service_pb2.AppendMessagesRequest()
    rest.CopyFrom(request)
    rest.ClearField("request_id")
    return _digest(MessageToDict(rest, preserving_proto_field_name=True))


def _digest(sent: Mapping[str, object]) -> bytes:
    canonical = json.dumps(sent, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).digest()
