"""Text in double quotes that YAML and TOML read alike, in printable ASCII.

Owns the one spelling of a quoted text in files and output. JSON's own spelling differs beyond 16 bits: there
it writes two halves, which YAML and TOML refuse.
"""

import json
import re

_TWO_HALVES = re.compile(r"(?P<escaped>\\\\)|\\u(?P<high>d[89ab][0-9a-f]{2})\\u(?P<low>d[c-f][0-9a-f]{2})")


def quoted(text: str) -> str:
    """Quotes a text. It has to be one that UTF-8 can hold: no half of a surrogate pair alone."""
    return _TWO_HALVES.sub(_whole, json.dumps(text))


def _whole(match: re.Match[str]) -> str:
    if match["escaped"]:
        return match["escaped"]
    code = 0x10000 + ((int(match["high"], 16) - 0xD800) << 10) + (int(match["low"], 16) - 0xDC00)
    return f"\\U{code:08x}"
