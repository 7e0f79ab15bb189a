"""Hiding this process from others of its user: its environment, its memory and its open files.

Owns the one call that does it. The system then also writes no core dump of it and lets no debugger near it.
"""

import ctypes
import sys

_SET_DUMPABLE = 4  # PR_SET_DUMPABLE


def hide_this_process() -> bool:
    """Hide it, for as long as it lives; True if that was done. Root is shown everything all the same.

    Whatever it starts by `exec` is not hidden.
    """
    if not sys.platform.startswith("linux"):
        return False
    return ctypes.CDLL(None).prctl(_SET_DUMPABLE, 0, 0, 0, 0) == 0
