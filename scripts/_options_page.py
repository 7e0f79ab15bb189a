"""Writes examples/options/README.md: what each example there shows.

`_pages.py` writes or checks it.
"""

from collections.abc import Iterator
from pathlib import Path

import yaml

FOLDER = Path(__file__).resolve().parent.parent / "examples" / "options"
PAGE = FOLDER / "README.md"
HEAD = """\
# An example of each option

<!-- Made by scripts/generate. -->

Each file holds small workflows, one a document. They show what keys of a
[workflow file](../../docs/workflow.md) do: `about` says what, `shows` which keys, and `expect` what comes of
it. The tests run each of them in a real server as it stands, and once more without each key that it shows, or
with another value there: then something comes otherwise.

| key | what it is |
|---|---|
| `workflow` | A whole workflow file. |
| `script`, `slow` | [Scripts](../../docs/scripted-models.md): of the models `fast` and `small`; of `slow`. |
| `input`, `before` | What the run is started with; inputs of earlier runs of the same thread. |
| `files` | Texts beside the file. |
| `service` | What the connection `shop` answers, by path; a list answers one after the other. |
| `policy` | What the policy service `guard` does: `allow`, `deny`, `slow`, `silent` or `broken`. |
| `adjust`, `answer` | What a person does when the run asks. |
| `pause` | `true`: somebody pauses the run as soon as it has started. |
| `mcp` | `true`: there is an MCP server, `shelf`. |
| `grpc` | `true`: there is a gRPC service, `till`. |
| `sql` | `true`: there is a data source, `ledger`, with a table of `orders`. |
| `expect` | What is seen from outside: the run, its calls, its events, what the service was asked. |
"""


def page() -> str:
    """The page as it has to be."""
    return HEAD + "".join(_sections())


def _sections() -> Iterator[str]:
    for file in sorted(FOLDER.glob("*.yaml")):
        yield f"\n## [`{file.name}`]({file.name})\n\n| what it shows | keys |\n|---|---|\n"
        for one in yaml.safe_load_all(file.read_text(encoding="utf-8")):
            keys = ", ".join(f"`{where}`" for shows in one["shows"] for where in _places(shows))
            yield f"| {one['about']} | {keys} |\n"


def _places(shows: str | dict[str, object]) -> list[str]:
    return [shows] if isinstance(shows, str) else list(shows)
