#!/usr/bin/env python3
"""Writes docs/findings.md: every code of a finding, from the table of the code.

Without words it rewrites the page; `--check` fails if the page is stale.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from jackline_server.definitions.finding_codes import GROUPS

PAGE = Path(__file__).resolve().parent.parent / "docs" / "findings.md"
HEAD = """\
# Findings

<!-- Made by scripts/_findings_page.py. -->

What `jackline validate` and ValidateWorkflow say of a [workflow file](workflow.md). Each finding has a
severity, a code, a place (file, line, column, path of keys) and a sentence. An *error*: the file can't be
used. A *warning*: it can, and likely does something else than was meant. An *info*: worth knowing.
`jackline validate` ends with 1 where there is an error. Codes stay as they are; sentences may get better.
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


def main() -> int:
    """Rewrites or checks the page."""
    fresh = page()
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(fresh, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != fresh:
        print(f"{PAGE.name} is stale: run scripts/_findings_page.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
