"""Writes docs/findings.md: every code of a finding, from the table of the code.

`_pages.py` writes or checks it.
"""

from collections.abc import Iterator
from pathlib import Path

from jackline_server.definitions.finding_codes import GROUPS

PAGE = Path(__file__).resolve().parent.parent / "docs" / "findings.md"
HEAD = """\
# Findings

<!-- Made by scripts/generate. -->

What `jackline validate` and ValidateWorkflow say of a [workflow file](workflow.md). Each finding has a
severity, a code, a place (file, line, column, path of keys) and a sentence. An *error*: the file can't be
used. A *warning*: it can, and likely does something else than was meant. An *info*: worth knowing.
`jackline validate` ends with 1 where there is an error, and with `--strict` where there is a warning. Codes
stay as they are; sentences may get better.
"""


def page() -> str:
    """The page as it has to be."""
    return HEAD + "".join(_sections())


def _sections() -> Iterator[str]:
    for heading, codes in GROUPS.items():
        yield f"\n## {heading}\n\n| code | severity | what it means | what to do |\n|---|---|---|---|\n"
        for code, told in codes.items():
            severities = " or ".join(severity.value for severity in told.severities)
            yield f"| `{code}` | {severities} | {told.means} | {told.do} |\n"
