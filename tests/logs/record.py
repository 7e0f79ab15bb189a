"""Records the golden logs of the release that is being made: `./scripts/record-logs`.

Owns which files there are. Only before the release: the logs of a release that was published are never
written again.
"""

import subprocess
import sys
from pathlib import Path

from tests.logs.atlas import atlas_text
from tests.logs.golden import FOLDER, RELEASE, GoldenLog, expected_text, summed_up, text_of
from tests.logs.restoring import dumped_store
from tests.logs.scenarios import SCENARIOS
from tests.logs.stage import record

STORED = ("tools", "answered", "controlled", "open_cut", "open_paused", "open_queued", "open_waiting")
"""The runs that the recorded store holds."""


def recorded() -> dict[str, str]:
    """Every file of the release by its name, as this code records it."""
    files: dict[str, str] = {}
    logs: dict[str, GoldenLog] = {}
    for scenario in SCENARIOS:
        log = logs[scenario.name] = record(scenario)
        files[f"{scenario.name}.jsonl"] = text_of(log)
        files[f"{scenario.name}.expected.json"] = expected_text(summed_up(log))
    return {**files, "atlas.jsonl": atlas_text(), "store.sql": dumped_store([logs[name] for name in STORED])}


def main() -> int:
    """Write what has changed, and say what it was."""
    if is_published(RELEASE):
        sys.stderr.write(f"record-logs: {RELEASE} is published; its logs stay. Raise RELEASE in golden.py.\n")
        return 1
    folder = FOLDER / RELEASE
    folder.mkdir(exist_ok=True)
    files = recorded()
    for path in sorted(folder.iterdir()):
        if path.name not in files:
            path.unlink()
            sys.stdout.write(f"removed {path.name}\n")
    for name, text in files.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            sys.stdout.write(f"wrote {name}\n")
    return 0


def is_published(release: str) -> bool:
    """True if the repository has the release's tag."""
    tags = subprocess.run(
        ["git", "tag", "--list", f"v{release}"],  # noqa: S607 - git of this machine
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=True,
    )
    return bool(tags.stdout.strip())


if __name__ == "__main__":
    sys.exit(main())
