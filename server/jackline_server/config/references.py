"""`${env:NAME}` and `${file:PATH}`: values that an operator keeps outside the file.

Owns what a reference is and what it stands for. A value that a reference brought in is never read again for
references, and never shown.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from jackline_server.plain_files import read_regular

_MAX_FILE_BYTES = 65_536
_REFERENCE = re.compile(r"\$\{(env|file):([^${}]*)\}")
_OPEN = "${"


class BadReference(ValueError):
    """A reference stands for nothing. The message names the reference and never a value."""


def has_reference(text: str) -> bool:
    """True if the text holds a reference, or the beginning of one."""
    return _OPEN in text


def references_in(text: str) -> tuple[str, ...]:
    """The references of a text as they are written, which may be shown."""
    return tuple(found[0] for found in _REFERENCE.finditer(text))


def resolved(text: str, *, environ: Mapping[str, str], folder: Path) -> str:
    """The text with each reference replaced. A relative path starts at `folder`.

    Raises:
        BadReference: unset, empty, nested, unknown in kind, not readable, or leading to another reference.
    """
    rest = _REFERENCE.sub("", text)
    if _OPEN in rest:
        raise BadReference("a reference is ${env:NAME} or ${file:PATH}, and holds no other")

    def value(match: re.Match[str]) -> str:
        kind, name = match[1], match[2].strip()
        found = _variable(name, environ) if kind == "env" else _content(name, folder)
        if _OPEN in found:
            raise BadReference(f"${{{kind}:{name}}} leads to another reference")
        return found

    return _REFERENCE.sub(value, text)


def _variable(name: str, environ: Mapping[str, str]) -> str:
    found = environ.get(name, "")
    if not found:
        raise BadReference(f"${{env:{name}}} is {'empty' if name in environ else 'not set'}")
    return found


def _content(name: str, folder: Path) -> str:
    try:
        data = read_regular(folder / name, most_bytes=_MAX_FILE_BYTES)
        if len(data) > _MAX_FILE_BYTES:
            raise BadReference(f"${{file:{name}}} is longer than {_MAX_FILE_BYTES} bytes")
        text = data.decode().rstrip("\r\n")
    except OSError as error:
        raise BadReference(f"${{file:{name}}} can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadReference(f"${{file:{name}}} is not UTF-8") from None
    if not text:
        raise BadReference(f"${{file:{name}}} is empty")
    return text
