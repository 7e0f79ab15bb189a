"""What a server asks a person before its tool goes on, in both generations of the protocol.

Owns the question that becomes of it, what is kept until the answer, and the answer in the protocol's words. A
server of 2026-07-28 ends the call with its questions, and gets it again with the answers: what is kept says
all. An older one holds the call open: what is kept says which. One that refuses until a page has been opened
has done nothing: its call is made anew. Nothing but questions is answered: no server has a model or folders
of ours.
"""

import hashlib
from dataclasses import dataclass
from urllib.parse import urlsplit

from mcp import UrlElicitationRequiredError
from mcp_types import (
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitResult,
    ErrorData,
    InputRequiredResult,
)

from jackline_server.core import json_text
from jackline_server.core.facts import ToolAsk, ToolReply
from jackline_server.core.plan import JsonObject, JsonValue
from jackline_server.tools.results import clean_text

MOST_CHARACTERS = 64 * 1024
_MOST_WORDS = 4_000


class NotAnswerable(Exception):
    """A server asks for what nobody here can give. The message is for a model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The questions of a call that ended with them, and the answers so far, in the protocol's words."""

    requests: JsonObject
    answers: JsonObject
    request_state: str | None

    @property
    def open(self) -> str | None:
        """The next question that has no answer."""
        return next((key for key in self.requests if key not in self.answers), None)

    def knowing(self, before: "Asked | None") -> "Asked":
        """The same with the answers that were given before to the very same questions."""
        if before is None:
            return self
        known = {
            key: before.answers[key]
            for key, params in self.requests.items()
            if key in before.answers and before.requests.get(key) == params
        }
        return Asked(
            requests=self.requests, answers={**known, **self.answers}, request_state=self.request_state
        )


def asked_by(answer: InputRequiredResult) -> Asked:
    """What a call ended with. Raises NotAnswerable."""
    requests: JsonObject = {}
    for key, request in (answer.input_requests or {}).items():
        if not isinstance(request, ElicitRequest):
            raise NotAnswerable(f"The tool asks for what can't be given from here: {request.method}.")
        dumped: JsonObject = request.params.model_dump(mode="json", by_alias=True, exclude_none=True)
        requests[key] = dumped
    return Asked(requests=requests, answers={}, request_state=answer.request_state)


def next_ask(asked: Asked) -> ToolAsk:
    """The next question of several. Raises NotAnswerable."""
    key = asked.open
    if key is None:
        raise LookupError("every question has an answer")
    kept: JsonObject = {"requests": asked.requests, "answers": asked.answers}
    if asked.request_state is not None:
        kept["requestState"] = asked.request_state
    params = asked.requests[key]
    return _ask(params if isinstance(params, dict) else {}, kept)


def held_ask(params: ElicitRequestParams, token: str) -> ToolAsk:
    """The question of a call that is held open under this token. Raises NotAnswerable."""
    dumped: JsonObject = params.model_dump(mode="json", by_alias=True, exclude_none=True)
    return _ask(dumped, {"held": token, "question": digest_of(params)})


def page_ask(page: JsonObject) -> ToolAsk:
    """The question of a call that was refused until somebody has opened a page. Raises NotAnswerable."""
    return _ask(page, {"page": page["url"]})


def first_page(error: ErrorData) -> JsonObject | None:
    """The page that a server wants to be opened before it does what it refused; None if it names none."""
    try:
        pages = UrlElicitationRequiredError.from_error(error).elicitations
    except (ValueError, AttributeError, TypeError):  # its data is whatever the server sent
        return None
    return pages[0].model_dump(mode="json", by_alias=True, exclude_none=True) if pages else None


def digest_of(params: ElicitRequestParams) -> str:
    """What two askings of one question have in common."""
    schema = params.requested_schema if isinstance(params, ElicitRequestFormParams) else params.url
    return hashlib.sha256(json_text.write([params.message, schema]).encode()).hexdigest()


def _ask(params: JsonObject, kept: JsonObject) -> ToolAsk:
    message, schema, url = params.get("message"), params.get("requestedSchema"), params.get("url")
    text = clean_text(str(message or ""))[:_MOST_WORDS]
    if isinstance(url, str):
        if not _is_page(url):
            raise NotAnswerable("The tool wants something opened that is no web page.")
        text = f"{text} Open {clean_text(url)[:_MOST_WORDS]} in a browser, and accept once that is done."
    ask = ToolAsk(
        text=text,
        schema_json=json_text.write(schema) if isinstance(schema, dict) else "",
        state_json=json_text.write(kept),
    )
    if len(ask.schema_json) + len(ask.state_json) > MOST_CHARACTERS:
        raise NotAnswerable("The tool asks a person more than can be kept.")
    return ask


def _is_page(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)


# --- answers -----------------------------------------------------------------------------------


def kept_asked(reply: ToolReply) -> Asked | None:
    """The questions that a reply is to, with its answer; None if it is to a call that is held open."""
    kept = json_text.parse_object(reply.state_json)
    requests, answers, state = kept.get("requests"), kept.get("answers"), kept.get("requestState")
    if not isinstance(requests, dict) or not isinstance(answers, dict):
        return None
    before = Asked(
        requests=requests, answers=answers, request_state=state if isinstance(state, str) else None
    )
    key = before.open
    if key is None:
        return before
    given: JsonObject = result_of(reply).model_dump(mode="json", by_alias=True, exclude_none=True)
    return Asked(requests=requests, answers={**answers, key: given}, request_state=before.request_state)


def is_to_page(reply: ToolReply) -> bool:
    """True if a reply is to the question of a call that was refused until a page has been opened."""
    return "page" in json_text.parse_object(reply.state_json)


def held_token(reply: ToolReply) -> tuple[str, str]:
    """The token of the call that is held open for a reply, and the digest of its question."""
    kept = json_text.parse_object(reply.state_json)
    return str(kept.get("held", "")), str(kept.get("question", ""))


def result_of(reply: ToolReply) -> ElicitResult:
    """The answer in the protocol's words."""
    action = reply.option if reply.option in ("accept", "decline") else "cancel"
    content: JsonValue = None
    if action == "accept" and reply.text.strip():
        try:
            content = json_text.parse_object(reply.text)
        except json_text.JsonError:
            content = None  # words beside a question that wants no data
    return ElicitResult.model_validate({"action": action, "content": content})
