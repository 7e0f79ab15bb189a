"""A server of an installed environment, in a folder of its own, with one workflow and a scripted model."""

import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.packaging.environments import COMMAND_S, ROOT, Environment

_CONFIG = """
[server]
workflows = "./workflows"
[models.demo]
script = "./script.yaml"
price = {input_per_million = 0, output_per_million = 0}
"""


@contextmanager
def serving(environment: Environment, home: Path) -> Generator[str]:
    """The address of a server of that home; its folder there is new. In the end it has to stop when told."""
    folder = home / "server"
    (folder / "workflows").mkdir(parents=True)
    (folder / "jackline.toml").write_text(_CONFIG, encoding="utf-8")
    for name in ("script.yaml", "workflows/greeting.yaml"):
        (folder / name).write_bytes((ROOT / "deploy" / "config" / name).read_bytes())
    process = subprocess.Popen(
        [str(environment.jackline), "serve", "--config", "jackline.toml", "--listen", "127.0.0.1:0"],
        cwd=folder,
        env=environment.environ(home),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        said = next((line for line in process.stdout if line.startswith("listening on ")), "")
        assert said, f"it ended with {process.wait(COMMAND_S)}"
        yield said.split()[-1]
        process.terminate()
        assert process.wait(COMMAND_S) == 0
    finally:
        process.kill()
        process.stdout.close()
        process.wait(COMMAND_S)
