"""A conversation made sound: whatever list of messages comes in, one that every provider takes goes out.

Owns what is sound, in both directions and by position:

- system messages stand at the head, then a request opens the conversation;
- each call has exactly one result, directly behind its reply and in call order;
- a result belongs to the reply before it: ids are compared within one exchange only, since they are reused;
- no message is empty, and neither two requests nor two plain replies stand in a row;
- ids are there, usable and unique; names have letters that providers take; arguments are a JSON object.

Pure, and idempotent: a sound conversation goes through unchanged and counts no repair. What a run's own log
gives is sound as `transcript` makes it; this is for what came from outside.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import assert_never

from jackline_server.core import json_text
from jackline_server.core.frozen import change, frozen
from jackline_server.core.messages import (
    AssistantMessage,
    Message,
    MessageToolCall,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from jackline_server.core.repairs import Repairs

NO_RESULT = "No result: the call was not carried out."
"""What stands for the result of a call that has none."""

MOST_QUOTED_CHARS = 2_000
"""So much of malformed arguments is kept."""

_BEGIN = "Begin."
_ODD_IN_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_MOST_NAME_CHARS = 64
_MOST_ID_CHARS = 64


@frozen
class Mended:
    """A sound conversation, and what had to be done for it."""

    messages: tuple[Message, ...]
    repairs: Repairs


def mended(messages: Iterable[Message]) -> Mended:
    """The conversation made sound."""
    given = tuple(messages)
    mending = _Mending(
        taken={call.call_id for one in given if isinstance(one, AssistantMessage) for call in one.calls}
    )
    for message in given:
        mending.take(message)
    mending.close()
    return Mended(messages=tuple(mending.sound), repairs=mending.repairs)


def usable_id(call_id: str) -> bool:
    """True for an id that every provider takes back."""
    short = 0 < len(call_id) <= _MOST_ID_CHARS
    return short and call_id.isascii() and call_id.isprintable() and " " not in call_id


def usable_name(name: str) -> str:
    """The name in the letters that every provider takes back."""
    return _ODD_IN_NAME.sub("_", name)[:_MOST_NAME_CHARS] or "unnamed"


def usable_arguments(arguments: str) -> str:
    """The arguments, if they are a JSON object, else one that quotes them: an empty one for none at all."""
    if not arguments.strip():
        return "{}"
    try:
        json_text.parse_object(arguments)
    except json_text.JsonError:
        return json_text.write({"malformed": json_text.clean(arguments)[:MOST_QUOTED_CHARS]})
    return arguments


@dataclass(slots=True)
class _Exchange:
    """A reply with calls while its results are looked for. `asked` are the ids as they came."""

    reply: AssistantMessage
    asked: tuple[str, ...]
    results: list[ToolMessage | None]
    requests: list[UserMessage] = field(default_factory=list[UserMessage])
    last: int = -1


@dataclass(slots=True)
class _Mending:
    """A conversation on its way. `taken` are the ids that no new one may have."""

    taken: set[str]
    sound: list[Message] = field(default_factory=list[Message])
    repairs: Repairs = field(default_factory=Repairs)
    _used: set[str] = field(default_factory=set[str])
    _open: _Exchange | None = None
    _begun: bool = False

    def take(self, message: Message) -> None:
        """Take in the next message."""
        match message:
            case SystemMessage():
                self._system(message)
            case UserMessage():
                self._request(message)
            case AssistantMessage():
                self._reply(message)
            case ToolMessage():
                self._result(message)
            case _:
                assert_never(message)

    def close(self) -> None:
        """End the exchange that is open: what it lacks gets a neutral result."""
        exchange, self._open = self._open, None
        if exchange is None:
            return
        self.sound.append(exchange.reply)
        for call, result in zip(exchange.reply.calls, exchange.results, strict=True):
            if result is None:
                self._count(dangling=1)
                result = ToolMessage(call_id=call.call_id, name=call.name, text=NO_RESULT, is_error=True)  # noqa: PLW2901 - the one that is missing
            self.sound.append(result)
        for request in exchange.requests:
            self._add_request(request)

    def _system(self, message: SystemMessage) -> None:
        if not message.text.strip():
            self._count(empty=1)
        elif self._begun:  # it came from outside, and nothing from outside has that rank
            self._count(demoted=1)
            self._request(UserMessage(text=message.text, provenance="input"))
        else:
            self.sound.append(message)

    def _request(self, message: UserMessage) -> None:
        if not message.text.strip():
            self._count(empty=1)
            return
        self._begun = True
        if self._open is None:
            self._add_request(message)
        else:
            self._open.requests.append(message)

    def _add_request(self, message: UserMessage) -> None:
        last = self.sound[-1] if self.sound else None
        if not isinstance(last, UserMessage):
            self.sound.append(message)
            return
        self._count(merged=1)
        self.sound[-1] = change(last, text=f"{last.text}\n\n{message.text}")

    def _reply(self, message: AssistantMessage) -> None:
        self.close()
        if not message.calls and not message.text.strip():
            self._count(empty=1)
            return
        if not self._begun:
            self._begun = True
            self._count(unasked=1)
            self.sound.append(UserMessage(text=_BEGIN, provenance="input"))
        last = self.sound[-1]
        if isinstance(last, AssistantMessage):
            self._count(merged=1)
            self.sound.pop()
            text = f"{last.text}\n\n{message.text}" if message.text.strip() else last.text
            message = change(message, text=text)
        if not message.calls:
            self.sound.append(message)
            return
        asked = tuple([call.call_id for call in message.calls])
        calls = tuple([self._call(call) for call in message.calls])
        self._open = _Exchange(change(message, calls=calls), asked, [None] * len(calls))

    def _call(self, call: MessageToolCall) -> MessageToolCall:
        call_id = call.call_id
        if not usable_id(call_id) or call_id in self._used:
            call_id = self._fresh()
        self._used.add(call_id)
        sound = MessageToolCall(
            call_id=call_id, name=usable_name(call.name), arguments=usable_arguments(call.arguments)
        )
        self._count(
            renamed=(sound.call_id, sound.name) != (call.call_id, call.name),
            quoted=sound.arguments != call.arguments,
        )
        return sound

    def _fresh(self) -> str:
        number = len(self._used) + 1
        while (call_id := f"call_{number}") in self.taken or call_id in self._used:
            number += 1
        return call_id

    def _result(self, message: ToolMessage) -> None:
        exchange = self._open
        slot = None if exchange is None else _slot(exchange, message.call_id)
        if exchange is None or slot is None:
            self._count(orphans=1)
            return
        call = exchange.reply.calls[slot]
        exchange.results[slot] = change(message, call_id=call.call_id, name=call.name)
        astray = bool(exchange.requests) or slot < exchange.last
        exchange.last = max(exchange.last, slot)
        self._count(moved=astray, renamed=message.name != call.name)

    def _count(self, **found: int) -> None:
        self.repairs = self.repairs.plus(Repairs(**found))


def _slot(exchange: _Exchange, call_id: str) -> int | None:
    """The first call of the exchange with that id that has no result yet."""
    for slot, asked in enumerate(exchange.asked):
        if asked == call_id and exchange.results[slot] is None:
            return slot
    return None
