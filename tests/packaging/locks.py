"""The lock files as data: which version of what they put on this machine."""

from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def pinned(lock: Path) -> dict[str, str]:
    """The versions that a lock file pins for this Python and platform, by canonical name."""
    found: dict[str, str] = {}
    for line in lock.read_text(encoding="utf-8").splitlines():
        if "==" not in line or line.startswith(("#", " ")):
            continue
        requirement = Requirement(line.rstrip("\\ "))
        if requirement.marker is None or requirement.marker.evaluate():
            (specifier,) = requirement.specifier
            found[canonicalize_name(requirement.name)] = specifier.version
    return found
