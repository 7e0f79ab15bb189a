"""What went wrong with an attempt, as one of our classes.

Owns the table from statuses, exception kinds and error objects to FailureClass, what a failed attempt was
charged, and how long a provider asks to wait. Pure: it reads exceptions by their shape and imports no
provider library. The message is cleansed by `redaction`.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import cast

from jackline_server.core.facts import FailureClass, Usage
from jackline_server.core.frozen import frozen
from jackline_server.models.redaction import safe_message
from jackline_server.runtime.ports import ModelFailure

RETRY_AFTER_CAP_MS = 60_000
"""No provider makes us wait longer."""

_MAX_CHAIN = 8

_GATEWAY_TIMEOUT = 504
"""The one 5xx behind which the provider may have worked, and will charge."""

_BY_STATUS: Mapping[int, FailureClass] = {
    401: FailureClass.AUTHENTICATION,
    403: FailureClass.AUTHENTICATION,
    408: FailureClass.TIMEOUT,
    409: FailureClass.UNAVAILABLE,
    413: FailureClass.CONTEXT_OVERFLOW,
    425: FailureClass.UNAVAILABLE,
    429: FailureClass.RATE_LIMITED,
}
_CONNECT_TIMEOUTS = frozenset({"ConnectTimeout", "PoolTimeout", "ConnectionTimeoutError"})
_TIMEOUTS = frozenset({"ReadTimeout", "WriteTimeout", "TimeoutException", "APITimeoutError", "TimeoutError"})
_CONNECT_ERRORS = frozenset(
    {"ConnectError", "ConnectionRefusedError", "gaierror", "SSLCertVerificationError", "ClientConnectorError"}
)
_CONNECTION_ERRORS = frozenset(
    {
        "ReadError",
        "WriteError",
        "CloseError",
        "NetworkError",
        "ProxyError",
        "SSLError",
        "ConnectionResetError",
        "BrokenPipeError",
        "ServerDisconnectedError",
    }
)
_MALFORMED = frozenset(
    {
        "JSONDecodeError",
        "UnicodeDecodeError",
        "RemoteProtocolError",
        "DecodingError",
        "ValidationError",
        "APIResponseValidationError",
    }
)
_BY_NAMES = (
    (_CONNECT_TIMEOUTS, FailureClass.CONNECTION, True),
    (_TIMEOUTS, FailureClass.TIMEOUT, False),
    (_CONNECT_ERRORS, FailureClass.CONNECTION, True),
    (_MALFORMED, FailureClass.MALFORMED, False),
    (_CONNECTION_ERRORS, FailureClass.CONNECTION, False),
)
_BY_CODE = (
    ("rate_limit", FailureClass.RATE_LIMITED),
    ("overloaded", FailureClass.UNAVAILABLE),
    ("server_error", FailureClass.UNAVAILABLE),
    ("unavailable", FailureClass.UNAVAILABLE),
    ("timeout", FailureClass.TIMEOUT),
)
_OVERFLOW = re.compile(
    r"context[_ ]length|context[_ ]window|maximum context|too many (?:input )?tokens|"
    r"(?:prompt|input|request) is too (?:long|large)|"
    r"exceeds? the (?:model|context|maximum)[^.]{0,40}(?:token|context|length)",
    re.IGNORECASE,
)
_WRAPPING = re.compile(r"^(?:(?:litellm\.)?\w+(?:Error|Exception)(?:: | - ))+")
_STATUS = re.compile(r"[3-5][0-9]{2}")
_CODE = re.compile(r"[a-z][a-z0-9_.\-]{2,63}", re.IGNORECASE)

_WORDS: Mapping[FailureClass, str] = {
    FailureClass.RATE_LIMITED: "the model's provider limits the rate of requests",
    FailureClass.UNAVAILABLE: "the model's provider is unavailable",
    FailureClass.CONNECTION: "the connection to the model's provider failed",
    FailureClass.TIMEOUT: "the model's provider took too long",
    FailureClass.MALFORMED: "the model's provider sent a reply that can't be read",
    FailureClass.AUTHENTICATION: "the model's provider refused our credentials",
    FailureClass.BAD_REQUEST: "the model's provider refused the request",
    FailureClass.CONTEXT_OVERFLOW: "the conversation is too long for the model",
    FailureClass.CANCELLED: "the request to the model was cancelled",
    FailureClass.INTERNAL: "the model adapter failed",
}


@frozen
class FailureContext:
    """What is known around a failure: what must not show, and whether the provider had begun to answer."""

    secrets: Sequence[str]
    said: Sequence[str]
    started: bool
    now_unix_s: float


def classify(error: BaseException, context: FailureContext) -> ModelFailure:
    """The failure that an exception of a provider library stands for."""
    if isinstance(error, ModelFailure):
        return error
    chain = list(_chain(error))
    names = {kind.__name__ for link in chain for kind in type(link).__mro__}
    status = next((status for link in chain if (status := _status(link)) is not None), None)
    told = next((told for link in chain if (told := _told(link))), _Told())
    by_name = _class_of_names(names)
    if by_name is not None:  # the library's own words and guesses say less than the kind of exception
        failure, is_refused, status, text = *by_name, None, ""
    elif status is None and not told and "APIError" not in names:
        failure, is_refused, text = FailureClass.INTERNAL, False, ""
    else:
        failure, is_refused = _class_of_answer(status, told)
        text = safe_message(told.words(), secrets=context.secrets, said=context.said)
    if context.started and not failure.may_pass:
        failure = FailureClass.MALFORMED
    return ModelFailure(
        failure,
        _message(failure, status, text),
        retry_after_ms=_retry_after(chain, context.now_unix_s),
        usage=Usage() if is_refused and not context.started else None,
    )


def in_stream_failure(error: object) -> ModelFailure:
    """The failure that an error object inside a stream stands for. Nobody knows what it cost."""
    told = _read_error(error)
    failure, _ = _class_of_answer(None, told)
    return ModelFailure(failure, _message(failure, None, told.code), usage=None)


def refused(failure: FailureClass, message: str) -> ModelFailure:
    """A failure before the provider did any work: it is charged nothing."""
    return ModelFailure(failure, message, usage=Usage())


def retry_after_ms(value: object, *, now_unix_s: float) -> int | None:
    """What a Retry-After header asks for, in milliseconds: seconds or an HTTP date, at most 60 s.

    None for what is neither, and for a time that is not ahead.
    """
    if not isinstance(value, str) or not value.strip():
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - now_unix_s
        except (ValueError, TypeError, OverflowError):
            return None
    if math.isnan(seconds) or seconds <= 0:
        return None
    return min(math.ceil(min(seconds, RETRY_AFTER_CAP_MS) * 1000), RETRY_AFTER_CAP_MS)


# --- reading an exception ----------------------------------------------------------------------


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The exception and what it wraps, from the outside in."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen and len(seen) < _MAX_CHAIN:
        seen.add(id(link))
        yield link
        wrapped = getattr(link, "original_exception", None)
        link = wrapped if isinstance(wrapped, BaseException) else link.__cause__ or link.__context__


def _status(error: BaseException) -> int | None:
    """The HTTP status that was really received; a library's own guess has no response with it."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status is None or type(error).__name__ in ("APIConnectionError", "Timeout"):
        return None
    own = getattr(error, "status_code", None)
    status = own if isinstance(own, int) else status
    return status if isinstance(status, int) and status >= 300 else None  # noqa: PLR2004 - HTTP's own classes


def _class_of_names(names: set[str]) -> tuple[FailureClass, bool] | None:
    """The class by kinds of exception, and whether the provider did no work; None if they don't tell."""
    if "ContextWindowExceededError" in names:
        return FailureClass.CONTEXT_OVERFLOW, True
    for kinds, failure, is_refused in _BY_NAMES:
        if names & kinds:
            return failure, is_refused
    return None


def _class_of_answer(status: int | None, told: "_Told") -> tuple[FailureClass, bool]:
    """The class by what the provider answered. Without a status it was an error inside a stream."""
    code = status or told.status
    is_refused = status is not None
    if told.is_overflow() and code in (None, 400, 413, 422):
        return FailureClass.CONTEXT_OVERFLOW, is_refused
    if code is None:
        failure = next((failure for word, failure in _BY_CODE if word in told.code), FailureClass.MALFORMED)
        return failure, False
    if code >= 500:  # noqa: PLR2004 - HTTP's own classes
        return FailureClass.UNAVAILABLE, is_refused and code != _GATEWAY_TIMEOUT
    failure = _BY_STATUS.get(code, FailureClass.BAD_REQUEST)
    return failure, is_refused and failure is not FailureClass.TIMEOUT


@frozen
class _Told:
    """What a provider said of an error. `code` is a short word, else empty."""

    status: int | None = None
    code: str = ""
    text: str = ""

    def __bool__(self) -> bool:
        return bool(self.status or self.code or self.text)

    def is_overflow(self) -> bool:
        return bool(_OVERFLOW.search(f"{self.code} {self.text}"))

    def words(self) -> str:
        return f"{self.text} ({self.code})" if self.code and self.text else self.text or self.code


def _told(error: BaseException) -> _Told:
    """The provider's own words: the parsed body, else the message of a library that wraps it."""
    told = _read_error(getattr(error, "body", None))
    if told or _status(error) is None:
        return told
    message = getattr(error, "message", None)
    return _Told(text=_WRAPPING.sub("", message)) if isinstance(message, str) else told


def _read_error(error: object) -> _Told:
    """An error object; `error` may be nested, or a plain string."""
    if isinstance(error, str):
        return _Told(text=error)
    if not isinstance(error, Mapping):
        return _Told()
    fields = cast("Mapping[str, object]", error)
    if isinstance(inner := fields.get("error"), Mapping | str):
        return _read_error(cast("object", inner))
    code, kind, text = fields.get("code"), fields.get("type"), fields.get("message")
    status = int(code) if isinstance(code, int | str) and _STATUS.fullmatch(str(code)[:4]) else None
    words = (value for value in (code, kind) if isinstance(value, str) and _CODE.fullmatch(value))
    return _Told(status=status, code=next(words, ""), text=text if isinstance(text, str) else "")


def _retry_after(chain: Iterable[BaseException], now_unix_s: float) -> int | None:
    for link in chain:
        headers = getattr(getattr(link, "response", None), "headers", None)
        if not isinstance(headers, Mapping):
            continue
        wait = retry_after_ms(cast("Mapping[str, object]", headers).get("retry-after"), now_unix_s=now_unix_s)
        if wait is not None:
            return wait
    return None


def _message(failure: FailureClass, status: int | None, said: str) -> str:
    answered = f" (HTTP {status})" if status else ""
    return f"{_WORDS[failure]}{answered}" + (f": {said}" if said else "")
