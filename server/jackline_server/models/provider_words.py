"""What a provider says of an error, taken out of whatever form it has.

Owns the forms of error objects and bodies, and telling that a conversation is too long. Pure. The words are
as they came: `redaction` cleanses them, `failures` says what they mean.
"""

import json
import re
from collections.abc import Mapping
from typing import cast

from jackline_server.core.frozen import frozen

_OVERFLOW = re.compile(
    r"context[_ ](?:length|window|size|limit)|maximum (?:context|prompt length|model length)|"
    r"too many (?:input )?tokens|model token limit|input token count|"
    r"reduce the (?:length of|input token)|max_new_tokens`? must be|"
    r"(?:prompt|input|request)(?: is)? too (?:long|large)|prompt exceeds max|"
    r"too large for model with|longer than the (?:model|maximum)|"
    r"exceed(?:s|ed)? (?:the |max(?:imum)? )?(?:model|context|maximum)[^.]{0,40}(?:token|context|length)",
    re.IGNORECASE,
)
_STATUS = re.compile(r"[3-5][0-9]{2}")
_CODE = re.compile(r"[a-z][a-z0-9_.\-]{2,63}", re.IGNORECASE)
_MAX_FINDINGS = 8


@frozen
class ProviderWords:
    """What a provider said of an error. `code` is a short word, `field` the request's field it is about."""

    status: int | None = None
    code: str = ""
    text: str = ""
    field: str = ""

    def __bool__(self) -> bool:
        return bool(self.status or self.code or self.text)

    def is_overflow(self) -> bool:
        """True if the conversation is too long for the model."""
        return bool(_OVERFLOW.search(f"{self.code} {self.text}"))

    def shown(self) -> str:
        """Text and code, uncleansed."""
        return f"{self.text} ({self.code})" if self.code and self.text else self.text or self.code


def read_error_body(body: bytes) -> ProviderWords:
    """What an error's body says. JSON of any provider, or a short plain text; of a page nothing is kept."""
    text = body.decode("utf-8", "replace").strip()
    try:
        document: object = json.loads(text)
    except (ValueError, RecursionError):
        return ProviderWords() if not text or text[0] in "<{[" else ProviderWords(text=text)
    if isinstance(document, list):  # some put the object into a list
        document = next(iter(cast("list[object]", document)), None)
    return read_error(cast("object", document))


def read_error(error: object) -> ProviderWords:
    """An error object; `error` may be nested, or a plain string."""
    if isinstance(error, str):
        return ProviderWords(text=error)
    if not isinstance(error, Mapping):
        return ProviderWords()
    fields = cast("Mapping[str, object]", error)
    if isinstance(inner := fields.get("error"), Mapping | str) and inner:
        return read_error(cast("object", inner))
    code, kind, about = fields.get("code"), fields.get("type"), fields.get("param")
    status = int(code) if isinstance(code, int | str) and _STATUS.fullmatch(str(code)[:4]) else None
    words = (value for value in (code, kind) if isinstance(value, str) and _CODE.fullmatch(value))
    return ProviderWords(
        status=status,
        code=next(words, ""),
        text=next(filter(None, (_error_text(fields.get(key)) for key in ("message", "detail"))), ""),
        field=about if isinstance(about, str) else "",
    )


def _error_text(value: object) -> str:
    """A text, or what a list of findings says: where each is, and what."""
    if isinstance(value, str):
        return value
    found: list[str] = []
    for item in cast("list[object]", value)[:_MAX_FINDINGS] if isinstance(value, list) else ():
        if isinstance(item, Mapping):
            fields = cast("Mapping[str, object]", item)
            place, what = fields.get("loc"), fields.get("msg")
            names = cast("list[object]", place) if isinstance(place, list) else []
            found.append(
                f"{'.'.join(map(str, names[:_MAX_FINDINGS]))}: {what if isinstance(what, str) else ''}"
            )
    return "; ".join(found)
