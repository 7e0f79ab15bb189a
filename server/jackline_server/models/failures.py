"""What went wrong with an attempt, as one of our classes.

Owns the table from statuses, exception kinds and error objects to FailureClass, what a failed attempt was
charged, and how long a provider asks to wait. Pure: it reads exceptions by their shape and imports no
provider library. The message is cleansed by `redaction`.
"""

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import cast

from jackline_server.core.facts import AttemptLimit, FailureClass, Usage
from jackline_server.core.frozen import frozen
from jackline_server.models.provider_words import ProviderWords, read_error
from jackline_server.models.redaction import safe_message
from jackline_server.runtime.ports.http import (
    HttpConnectLate,
    HttpFailure,
    HttpRefused,
    HttpTooLarge,
    HttpUnreadable,
    HttpUnsent,
    retry_after_ms,
    waited_ms,
)
from jackline_server.runtime.ports.models import ModelFailure

_RETRY_AFTER_MS = ("retry-after-ms", "x-ms-retry-after-ms")
_MAX_CHAIN = 8

_BY_STATUS: Mapping[int, FailureClass] = {
    401: FailureClass.AUTHENTICATION,
    403: FailureClass.AUTHENTICATION,
    408: FailureClass.TIMEOUT,
    409: FailureClass.UNAVAILABLE,
    413: FailureClass.CONTEXT_OVERFLOW,
    425: FailureClass.UNAVAILABLE,
    429: FailureClass.RATE_LIMITED,
    504: FailureClass.TIMEOUT,  # the one 5xx behind which the provider may have worked, and will charge
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
_WRAPPING = re.compile(r"^(?:(?:litellm\.)?\w+(?:Error|Exception)(?:: | - ))+")
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
    told = next((told for link in chain if (told := _told(link))), ProviderWords())
    by_name = _class_of_names(names)
    if by_name is not None:  # the library's own words and guesses say less than the kind of exception
        failure, is_refused, status, text = *by_name, None, ""
    elif status is None and not told and "APIError" not in names:
        failure, is_refused, text = FailureClass.INTERNAL, False, ""
    else:
        failure, is_refused = _class_of_answer(status, told)
        text = safe_message(told.shown(), secrets=context.secrets, said=context.said)
    if context.started and not failure.may_pass:
        failure = FailureClass.MALFORMED
    return ModelFailure(
        failure,
        _message(failure, status, text),
        retry_after_ms=_retry_after(chain, context.now_unix_s),
        usage=Usage() if is_refused and not context.started else None,
        limit=_limit_of_names(names),
    )


@frozen
class ErrorAnswer:
    """An answer that is no reply: its status, its headers by any case, and what its body says."""

    status: int
    headers: Mapping[str, str]
    words: ProviderWords


def answered_failure(answer: ErrorAnswer, context: FailureContext) -> ModelFailure:
    """The failure that an HTTP answer stands for."""
    failure, is_refused = _class_of_answer(answer.status, answer.words)
    text = safe_message(answer.words.shown(), secrets=context.secrets, said=context.said)
    return ModelFailure(
        failure,
        _message(failure, answer.status, text),
        retry_after_ms=_asked_wait(answer.headers, context.now_unix_s),
        usage=Usage() if is_refused else None,
    )


def unanswered_failure(error: HttpFailure) -> ModelFailure:
    """The failure that a request without a whole answer stands for. An unsent one is charged nothing."""
    match error:
        case HttpRefused():
            return refused(
                FailureClass.BAD_REQUEST,
                "the model's server may not be reached, or the request is no valid HTTP; "
                "look at base_url and headers in its profile",
            )
        case HttpConnectLate():
            return refused(
                FailureClass.CONNECTION, _WORDS[FailureClass.CONNECTION], limit=AttemptLimit.CONNECT
            )
        case HttpUnsent():
            return refused(FailureClass.CONNECTION, _WORDS[FailureClass.CONNECTION])
        case HttpUnreadable() | HttpTooLarge():
            return ModelFailure(FailureClass.MALFORMED, _WORDS[FailureClass.MALFORMED])
        case _:
            return ModelFailure(FailureClass.CONNECTION, _WORDS[FailureClass.CONNECTION])


def in_stream_failure(error: object, secrets: Sequence[str] = ()) -> ModelFailure:
    """The failure that an error object inside a stream stands for. Nobody knows what it cost."""
    told = read_error(error)
    failure, _ = _class_of_answer(None, told)
    return ModelFailure(
        failure, _message(failure, None, safe_message(told.code, secrets=secrets)), usage=None
    )


def refused(failure: FailureClass, message: str, *, limit: AttemptLimit | None = None) -> ModelFailure:
    """A failure before the provider did any work: it is charged nothing."""
    return ModelFailure(failure, message, usage=Usage(), limit=limit)


def over_size(limit: AttemptLimit = AttemptLimit.BYTES) -> ModelFailure:
    """The reply holds more than it may. Nobody knows what it cost."""
    return ModelFailure(FailureClass.MALFORMED, "the model's reply is over its size limit", limit=limit)


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


def _limit_of_names(names: set[str]) -> AttemptLimit | None:
    """The timer or cap that a kind of exception stands for, as far as it tells."""
    if names & _CONNECT_TIMEOUTS:
        return AttemptLimit.CONNECT
    return AttemptLimit.BYTES if "OverSize" in names else None


def _class_of_answer(status: int | None, told: ProviderWords) -> tuple[FailureClass, bool]:
    """The class by what the provider answered. Without a status it was an error inside a stream."""
    code = status or told.status
    is_refused = status is not None
    if told.is_overflow() and code in (None, 400, 413, 422, 500):
        return FailureClass.CONTEXT_OVERFLOW, is_refused
    if code is None:
        failure = next((failure for word, failure in _BY_CODE if word in told.code), FailureClass.MALFORMED)
        return failure, False
    otherwise = FailureClass.UNAVAILABLE if code >= 500 else FailureClass.BAD_REQUEST  # noqa: PLR2004 - HTTP's own classes
    failure = _BY_STATUS.get(code, otherwise)
    return failure, is_refused and failure is not FailureClass.TIMEOUT


def _told(error: BaseException) -> ProviderWords:
    """The provider's own words: the parsed body, else the message of a library that wraps it."""
    told = read_error(getattr(error, "body", None))
    if told or _status(error) is None:
        return told
    message = getattr(error, "message", None)
    return ProviderWords(text=_WRAPPING.sub("", message)) if isinstance(message, str) else told


def _retry_after(chain: Iterable[BaseException], now_unix_s: float) -> int | None:
    for link in chain:
        headers = getattr(getattr(link, "response", None), "headers", None)
        if isinstance(headers, Mapping):
            wait = _asked_wait(cast("Mapping[str, str]", headers), now_unix_s)
            if wait is not None:
                return wait
    return None


def _asked_wait(headers: Mapping[str, str], now_unix_s: float) -> int | None:
    """What a provider asks to wait, by the most exact header that can be read."""
    for name in _RETRY_AFTER_MS:
        with contextlib.suppress(TypeError, ValueError):
            exact = waited_ms(float(headers.get(name, "")))
            if exact is not None:
                return exact
    return retry_after_ms(headers.get("retry-after"), now_unix_s=now_unix_s)


def _message(failure: FailureClass, status: int | None, said: str) -> str:
    answered = f" (HTTP {status})" if status else ""
    return f"{_WORDS[failure]}{answered}" + (f": {said}" if said else "")
