"""What a request id stands for: the SHA-256 of the request as it was sent, in one canonical form.

Unknown fields and the request id itself do not count. The request is one that passed its checks.
"""

import hashlib
import json

from google.protobuf.json_format import MessageToDict

from jackline.v1 import run_service_pb2


def fingerprint(request: run_service_pb2.StartRunRequest) -> bytes:
    """The fingerprint, 32 bytes: equal for requests that ask for the same."""
    sent = MessageToDict(request, preserving_proto_field_name=True)
    sent.pop("request_id", None)
    canonical = json.dumps(sent, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).digest()
