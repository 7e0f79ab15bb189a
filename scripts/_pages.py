#!/usr/bin/env python3
"""Keeps the pages that are made, wholly or in part: written anew, or compared where the word is `--check`.

Does not own what stands on a page: a module beside this one makes each.
"""

import sys

import _cli_page
import _defaults_table
import _findings_page
import _options_page

MADE = (_cli_page, _defaults_table, _findings_page, _options_page)


def main() -> int:
    """1 if a page was to be checked and is stale, else 0."""
    stale = False
    for one in MADE:
        fresh = one.page()
        if "--check" not in sys.argv[1:]:
            one.PAGE.write_text(fresh, encoding="utf-8")
        elif not one.PAGE.exists() or one.PAGE.read_text(encoding="utf-8") != fresh:
            print(f"{one.PAGE.name} is stale: run scripts/generate", file=sys.stderr)
            stale = True
    return int(stale)


if __name__ == "__main__":
    sys.exit(main())
