"""A workflow's HTTP action and the values of a call, made into a request's parts.

Owns how values are encoded for where they stand: whatever a value holds, it changes neither the host nor the
number of path segments, adds no query parameter and ends no header line. Pure.
"""

import re
from collections.abc import Callable, Mapping
from urllib.parse import quote, unquote

from jackline_server.core import json_text, templates
from jackline_server.core.frozen import frozen
from jackline_server.core.plan import HttpAction, JsonValue

_LITERAL_SAFE = "%!$&'()*+,;=:@-._~"
_BREAKS_LINE = re.compile("[\x00-\x08\x0a-\x1f\x7f]")
_CLIMBS = frozenset({".", ".."})
_OURS = frozenset({"idempotency-key", "host", "content-length", "transfer-encoding", "connection", "cookie"})


class MessageProblem(ValueError):
    """The values make no request. The message is for the model, and shows no value."""


@frozen
class HttpMessage:
    """The parts that the workflow and the call decide. `target` is encoded; `body` is JSON."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes | None


def message_of(action: HttpAction, values: Mapping[str, JsonValue]) -> HttpMessage:
    """Fill the action with values.

    Raises:
        MessageProblem: a value is missing or can't stand where the template puts it.
    """
    query = _query(action.query, values)
    body = None if action.body_json is None else _body(action.body_json, values)
    headers = {name: _header(name, text, values) for name, text in action.headers.items()}
    if body is not None and not any(name.lower() == "content-type" for name in headers):
        headers["Content-Type"] = "application/json"
    return HttpMessage(
        method=action.method.upper(),
        target=_path(action.path, values) + (f"?{query}" if query else ""),
        headers=headers,
        body=body,
    )


def _path(path: str, values: Mapping[str, JsonValue]) -> str:
    if not path:
        return ""
    if not path.startswith("/"):
        raise MessageProblem("the path does not begin with /")
    segments = path[1:].split("/")
    if segments[-1] == "":  # a path may end with a slash
        return "".join(f"/{_segment(segment, values)}" for segment in segments[:-1]) + "/"
    return "".join(f"/{_segment(segment, values)}" for segment in segments)


def _segment(segment: str, values: Mapping[str, JsonValue]) -> str:
    literals = _rendered(segment, values, lambda _: "")
    if any(character in literals for character in "?#\\"):
        raise MessageProblem("the path holds one of ? # \\ outside a template")
    encoded = quote(_rendered(segment, values, _quoted_segment), safe=_LITERAL_SAFE)
    if not encoded or unquote(encoded) in _CLIMBS:
        raise MessageProblem("a path segment would be empty, . or ..")
    return encoded


def _quoted_segment(value: JsonValue) -> str:
    text = _text(value)
    parts = re.split(r"[/\\]", unquote(text))
    if any(part in _CLIMBS for part in parts) or _BREAKS_LINE.search(text):
        raise MessageProblem("a value in the path would lead out of it")
    return quote(text, safe="")


def _query(query: Mapping[str, str], values: Mapping[str, JsonValue]) -> str:
    """The encoded query. A parameter that is one template whose value is null is left out."""
    pairs: list[str] = []
    for name, text in query.items():
        name_alone = _sole_name(text)
        if name_alone is not None and values.get(name_alone, "") is None:
            continue
        pairs.append(f"{quote(name, safe='')}={quote(_rendered(text, values, _text), safe='')}")
    return "&".join(pairs)


def _header(name: str, text: str, values: Mapping[str, JsonValue]) -> str:
    if name.lower() in _OURS:
        raise MessageProblem(f"header {name!r} is not a workflow's to set")
    value = _rendered(text, values, _text)
    if _BREAKS_LINE.search(value):
        raise MessageProblem(f"the value of header {name!r} holds a control character")
    return value


def _body(body_json: str, values: Mapping[str, JsonValue]) -> bytes:
    try:
        return json_text.write(filled(json_text.parse(body_json), values)).encode()
    except json_text.JsonError as error:
        raise MessageProblem(f"the body is not JSON: {error}") from None
    except ValueError as error:
        if isinstance(error, MessageProblem):
            raise
        raise MessageProblem("a value in the body can't be written as JSON") from None


def filled(node: JsonValue, values: Mapping[str, JsonValue]) -> JsonValue:
    """A document whose strings are templates, filled in; one that is a single template keeps its type.

    Raises:
        MessageProblem: a value is missing.
    """
    match node:
        case str():
            name_alone = _sole_name(node)
            if name_alone is not None and name_alone in values:
                return values[name_alone]
            return _rendered(node, values, _text)
        case list():
            return [filled(item, values) for item in node]
        case dict():
            return {key: filled(item, values) for key, item in node.items()}
        case _:
            return node


def _sole_name(text: str) -> str | None:
    try:
        return templates.sole_name(text)
    except templates.TemplateError as error:
        raise MessageProblem(str(error)) from None


def _rendered(text: str, values: Mapping[str, JsonValue], encode: Callable[[JsonValue], str]) -> str:
    try:
        return templates.render(text, values, encode)
    except templates.TemplateError as error:
        raise MessageProblem(str(error)) from None


def _text(value: JsonValue) -> str:
    """A value as the text that stands for it: itself if it is text, nothing if it is null, else its JSON."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else json_text.write(value)
    return json_text.clean(text)
