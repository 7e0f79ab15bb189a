"""What `jackline explain` says of recorded runs, as text: `python -m tests.client.explained` writes it anew.

Owns the folder `explained/` and its form: the full view, then what is left without content.
"""

import base64
import json
import sys
from pathlib import Path

from jackline.v1.event_pb2 import StepEvent
from jackline_client.cli.commands.explaining import explanation_lines
from jackline_client.explaining import Explanation, explain

FOLDER = Path(__file__).parent / "explained"
LOGS = Path(__file__).parents[1] / "logs" / "0.1.0"
NAMES = sorted(path.stem for path in LOGS.glob("*.jsonl") if path.stem != "atlas")
RULE = "--- without content ---"


def recorded(name: str, *, content: bool = True) -> list[StepEvent]:
    """The events of a recorded run."""
    _, *lines = (LOGS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    found = [json.loads(line) for line in lines]
    return [
        StepEvent.FromString(
            base64.b64decode(line["meta"]) + (base64.b64decode(line["content"]) if content else b"")
        )
        for line in found
    ]


def text_of(explanation: Explanation) -> str:
    """The lines for a person."""
    return "".join(f"{line.text}\n" for line in explanation_lines(explanation))


def explained(name: str) -> str:
    """The file of a recorded run."""
    full, bare = explain(recorded(name)), explain(recorded(name, content=False))
    return f"{text_of(full)}{RULE}\n{text_of(bare)}"


def main() -> None:
    """Write what has changed, and say what it was."""
    FOLDER.mkdir(exist_ok=True)
    for name in NAMES:
        path = FOLDER / f"{name}.txt"
        text = explained(name)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            sys.stdout.write(f"wrote {name}\n")


if __name__ == "__main__":
    main()
