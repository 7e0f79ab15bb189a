"""The machine that containers of these tests run on: a shell in a network namespace, with `docker` in it.

Owns that shell's environment: nothing of this machine's but the tools. Does not own what `docker` does; that
is `engine`'s.
"""

import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.container.image import Image
from tests.container.sandbox import network_of_its_own

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 110
_BIN = Path(sys.executable).parent
_WITH_BUF = """
grpcurl() {
  [ "$1 $2 $4" = "-plaintext -H -d" ]
  printf '%s' "$5" | buf curl --protocol grpc --http2-prior-knowledge --reflect-header '*' -H "$3" -d @- "http://$6/$7"
}
"""
"""Where there is no grpcurl: the same call, by the tool that the project brings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What a script came to. `logs` is what its containers wrote."""

    code: int
    out: str
    err: str
    logs: str


class Host:
    """A machine of its own for one test: its folder, and the image that its `docker` knows."""

    def __init__(self, folder: Path, image: Image) -> None:
        self.clone = folder / "clone"
        self.clone.mkdir()
        shutil.copy2(ROOT / "Dockerfile", self.clone)
        shutil.copytree(ROOT / "deploy", self.clone / "deploy", ignore=shutil.ignore_patterns("secrets"))
        self._state = folder / "engine"
        self._state.mkdir()
        image.save(self._state / "image.json")

    def run(self, script: str) -> Ended:
        """Run a script of bash to its end, from the top of a clone. Its containers end with it."""
        path = f"{_BIN}{os.pathsep}{ROOT / '.jackline' / 'tools'}{os.pathsep}{os.environ['PATH']}"
        engine = shlex.join([sys.executable, "-m", "tests.container.engine"])
        lines = ["set -euo pipefail", f'docker() {{ {engine} "$@"; }}']
        lines += [] if shutil.which("grpcurl", path=path) else [_WITH_BUF]
        done = subprocess.run(
            network_of_its_own(["bash", "-c", "\n".join([*lines, script])]),
            cwd=self.clone,
            env={
                "PATH": path,
                "HOME": str(self._state.parent),
                "PYTHONPATH": os.pathsep.join([str(ROOT), *(each for each in sys.path if each)]),
                "JACKLINE_TEST_ENGINE": str(self._state),
            },
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        logs = "".join(log.read_text(encoding="utf-8") for log in self._state.glob("containers/*/log"))
        return Ended(code=done.returncode, out=done.stdout, err=done.stderr, logs=logs)
