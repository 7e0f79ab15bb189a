"""What is asked of a model on the OpenAI chat wire: the body of a request, and what a server refuses of it.

Owns the fields of the body, which of two names the bound of the reply has, and the few options that a request
can do without. Pure. Messages and tools are written by `translate`.
"""

import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from enum import Enum
from functools import lru_cache

from jackline_server.core import json_text
from jackline_server.core.messages import AssistantMessage
from jackline_server.core.plan import JsonObject
from jackline_server.models.profile import ModelProfile
from jackline_server.models.provider_words import ProviderWords
from jackline_server.models.strict_order import breaks_order, wants_strict_order
from jackline_server.models.tool_schemas import Dialect, dialect_of
from jackline_server.models.translate import wire_messages, wire_reply_format, wire_tool, wire_tool_choice
from jackline_server.runtime.ports.models import ModelRequest


class Option(Enum):
    """What a request can do without, or write otherwise; by the name that a server refuses it under."""

    USAGE = "stream_options"
    """Usage at the end of a stream. Without it the cost of a reply is unknown."""

    MAX_TOKENS = "max_tokens"
    MAX_COMPLETION_TOKENS = "max_completion_tokens"

    REASONING = "reasoning_content"
    """The model's reasoning of earlier replies. Most servers want or ignore it; a few refuse it."""

    FREE_ORDER = "messages"
    """A conversation as it is, of a model whose name does not say that it demands more (`strict_order`)."""


_REASONS = re.compile(r"(?:^|/)(?:o[1-9]|gpt-[5-9])(?:[.-]|$)")
"""Families that refuse `max_tokens`."""

_REFUSING = frozenset({400, 404, 422, 501})
_NAMED: Mapping[Option, re.Pattern[str]] = {
    Option.USAGE: re.compile(r"stream_options|include_usage"),
    Option.MAX_TOKENS: re.compile(r"(?<![a-z_])max_tokens"),
    Option.MAX_COMPLETION_TOKENS: re.compile(r"max_completion_tokens"),
    Option.REASONING: re.compile(
        r"reasoning_content|reasoning_details|thinking_blocks|extra_content|"
        r"provider_specific_fields|(?<![a-z_])reasoning(?![a-z_])"
    ),
    Option.FREE_ORDER: re.compile(
        r"role \W*user\W* after role \W*tool\b|message_order|with a length of 9|IDs should be alphanumeric",
        re.IGNORECASE,
    ),
}
_TOLD_BY_NAME = frozenset({Option.USAGE, Option.REASONING, Option.FREE_ORDER})
"""Those that a server refuses by naming them, and does not have to say that it does not know."""

_UNKNOWN = re.compile(
    r"un(?:supported|recogni[sz]ed|known|expected)|not (?:supported|permitted|allowed)|"
    r"extra[ _](?:fields?|forbidden|inputs)",
    re.IGNORECASE,
)
_TOOLS_KEPT = 512


def body_of(
    request: ModelRequest, *, model: str, profile: ModelProfile, without: AbstractSet[Option]
) -> bytes:
    """The body as JSON; `without` are the options that were refused."""
    messages = wire_messages(
        request.messages,
        None if Option.REASONING in without else request.plan,
        strict_order=Option.FREE_ORDER in without or wants_strict_order(model),
    )
    body: JsonObject = {
        **profile.parameters,
        "model": model,
        "messages": [*messages],
        token_option(model, profile, without).value: request.max_output_tokens,
    }
    if profile.streams:
        body["stream"] = True
        if Option.USAGE not in without:
            body["stream_options"] = {"include_usage": True}
    if request.reply_schema is not None:
        body["response_format"] = wire_reply_format(request.reply_schema)
    if not request.tools:
        return json_text.write(body).encode()
    body["tool_choice"] = wire_tool_choice(request.tool_choice)
    dialect = dialect_of(model)
    tools = ",".join(
        _tool_text(tool.ref, tool.description, tool.parameters_json, dialect) for tool in request.tools
    )
    return f'{json_text.write(body)[:-1]},"tools":[{tools}]}}'.encode()


@lru_cache(maxsize=_TOOLS_KEPT)
def _tool_text(ref: str, description: str, parameters_json: str, dialect: Dialect) -> str:
    """A declaration as text: the same tools go out with every call, and reading a schema is not cheap."""
    return json_text.write(wire_tool(ref, description, parameters_json, dialect))


def token_option(model: str, profile: ModelProfile, without: AbstractSet[Option]) -> Option:
    """The field that bounds the reply: one that was not refused, of the profile or of the model's family."""
    if Option.MAX_TOKENS in without:
        return Option.MAX_COMPLETION_TOKENS
    if Option.MAX_COMPLETION_TOKENS in without:
        return Option.MAX_TOKENS
    if profile.max_tokens_key is not None:
        return Option(profile.max_tokens_key)
    return Option.MAX_COMPLETION_TOKENS if _REASONS.search(model.lower()) else Option.MAX_TOKENS


def refused_option(status: int, words: ProviderWords, *, sent: AbstractSet[Option]) -> Option | None:
    """The option among those sent for whose sake a server refused a request; None if it was not for one.

    A bound that is too large names its field too, and is no reason to send it under a name that may be
    ignored: for those the server has to say that it does not know the field.
    """
    if status not in _REFUSING or words.is_overflow():
        return None
    told = f"{words.field} {words.code} {words.text}"
    for option in Option:
        is_told = option in _TOLD_BY_NAME or _UNKNOWN.search(told)
        where = told if option is Option.FREE_ORDER else words.field or told
        if option in sent and is_told and _NAMED[option].search(where):
            return option
    return None


def options_of(
    request: ModelRequest, *, model: str, profile: ModelProfile, without: AbstractSet[Option]
) -> AbstractSet[Option]:
    """The options of a body that can still be left out; of the two bounds one has to stay."""
    options: set[Option] = set()
    if Option.REASONING not in without and any(
        isinstance(message, AssistantMessage) and message.blocks is not None for message in request.messages
    ):
        options.add(Option.REASONING)
    if profile.streams and Option.USAGE not in without:
        options.add(Option.USAGE)
    is_free = Option.FREE_ORDER not in without and not wants_strict_order(model)
    if is_free and breaks_order(wire_messages(request.messages, None)):
        options.add(Option.FREE_ORDER)
    if without.isdisjoint({Option.MAX_TOKENS, Option.MAX_COMPLETION_TOKENS}):
        options.add(token_option(model, profile, without))
    return options
