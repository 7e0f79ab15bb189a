"""What Mistral's models, and servers that use their template, demand of a conversation beyond the wire.

Owns two rules. Behind the results of tools stands a reply: a user's message right behind one is refused, so
that a short reply is put between. The ids of calls are nine letters and digits: others are replaced, each by
the same one wherever it stands. Pure. No other server minds either.
"""

import hashlib
import re
from collections.abc import Sequence

from jackline_server.core.plan import JsonObject

_FAMILY = re.compile(
    r"(?:mistral|mixtral|ministral|magistral|codestral|devstral|pixtral|voxtral)", re.IGNORECASE
)
_PLAIN_ID = re.compile(r"[A-Za-z0-9]{9}")
_BETWEEN: JsonObject = {"role": "assistant", "content": "I have read the results."}


def wants_strict_order(model: str) -> bool:
    """True if a model's name says that it is one of the family, whoever serves it."""
    return _FAMILY.search(model) is not None


def ordered(messages: Sequence[JsonObject]) -> list[JsonObject]:
    """Messages of the OpenAI chat wire, in the order and with the ids that are demanded."""
    made: list[JsonObject] = []
    for message in messages:
        if message.get("role") == "user" and made and made[-1].get("role") == "tool":
            made.append(_BETWEEN)
        made.append(_with_plain_ids(message))
    return made


def breaks_order(messages: Sequence[JsonObject]) -> bool:
    """True if `ordered` would change something."""
    return ordered(messages) != list(messages)


def _with_plain_ids(message: JsonObject) -> JsonObject:
    call_id, calls = message.get("tool_call_id"), message.get("tool_calls")
    if isinstance(call_id, str):
        return {**message, "tool_call_id": _plain(call_id)}
    if isinstance(calls, list):
        return {
            **message,
            "tool_calls": [
                {**call, "id": _plain(str(call["id"]))} if isinstance(call, dict) and "id" in call else call
                for call in calls
            ],
        }
    return message


def _plain(call_id: str) -> str:
    return call_id if _PLAIN_ID.fullmatch(call_id) else hashlib.sha256(call_id.encode()).hexdigest()[:9]
