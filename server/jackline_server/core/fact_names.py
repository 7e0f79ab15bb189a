"""The names of facts as the contract has them.

Owns the one rule: the member of `StepEvent.fact` is the fact's own name in lower case, its words joined by
underscores.
"""

import re
from functools import cache

from jackline_server.core.facts import Fact

_WORD_BEGINS = re.compile(r"(?<!^)(?=[A-Z])")


def fact_name(fact: Fact) -> str:
    """The name of the fact's kind, such as `tool_call_finished`."""
    return _name(type(fact))


@cache
def _name(kind: type[Fact]) -> str:
    return _WORD_BEGINS.sub("_", kind.__name__).lower()
