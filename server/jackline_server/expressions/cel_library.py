"""The CEL library, without its command line.

Owns how it is imported. Its package brings in a command line and with that a terminal toolkit: a fifth of
what a server needs to start, and of no use to it. An empty module in its place keeps it out.
"""

import sys
from types import ModuleType

sys.modules.setdefault("cel.cli", ModuleType("cel.cli"))

import cel  # noqa: E402 - only after the line above

__all__ = ["cel"]
