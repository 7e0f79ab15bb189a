"""`jackline init`: a project to begin with.

Owns which files it has and that none is overwritten unasked. What is in them stands in the folder `starter`,
whose names are those of the project, but for `dot-` in place of a leading dot and `.txt` after a program.
"""

import errno
import json
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated

import typer

from jackline_server.commands.given import fail, say
from jackline_server.commands.writing import write_whole
from jackline_server.exit_codes import EXIT_CANT_CREATE, EXIT_USAGE

_PROJECT = {
    "jackline.toml": "jackline.toml",
    "workflows/assistant.yaml": "workflows/assistant.yaml",
    "script.yaml": "script.yaml",
    "notes.py": "notes.py.txt",
    "notes.txt": "notes.txt",
    "README.md": "README.md",
    ".gitignore": "dot-gitignore",
}
_PYTHON = "@PYTHON@"
_COMMAND = "init"
_OF_THE_SERVER = "apsw"
"""A package that the server needs and a plain install lacks."""


def init(
    folder: Annotated[Path, typer.Argument(help="Where; made if it is not there.", metavar="[DIR]")] = Path(),
    *,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that are there.")] = False,
) -> None:
    """Write a small project that runs at once: a config, a workflow, a tool of its own, a scripted model.

    No provider's key is needed until you put your own model in.
    """
    there = [name for name in _PROJECT if (folder / name).exists() or (folder / name).is_symlink()]
    if there and not force:
        advice = "take another folder, or --force to overwrite them"
        fail(
            _COMMAND,
            EXIT_USAGE,
            f"there already: {', '.join(str(folder / name) for name in there)}; {advice}",
        )
    astray = [name for name in _PROJECT if _leads_out(folder, (folder / name).parent)]
    if astray:
        places = ", ".join(dict.fromkeys(str((folder / name).parent) for name in astray))
        advice = "remove the link, or take another folder"
        fail(_COMMAND, EXIT_USAGE, f"a link that leads out of {folder}: {places}; {advice}")
    for name, text in project_files().items():
        path = folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, text)
        except OSError as error:
            fail(_COMMAND, EXIT_CANT_CREATE, f"{path} can't be written: {error.strerror}")
    say(*(f"wrote {folder / name}" for name in _PROJECT), "")
    if not _can_serve():  # this command is in a plain install too, what serves is not
        say("The server is not installed. First: pip install 'jackline[server]'", "")
    say("Next:")
    if folder != Path():
        say(f"  cd {folder}")
    say(*(f"  {line}" for line in next_commands()))


def _leads_out(folder: Path, inner: Path) -> bool:
    """True if what stands for a folder of the project is one elsewhere, or can't be followed."""
    try:
        inner.stat()
    except OSError as error:
        # Asked for, since `resolve` raises for it (RuntimeError) only before Python 3.13.
        if error.errno == errno.ELOOP:
            return inner != folder
    try:
        return not inner.resolve().is_relative_to(folder.resolve())
    except OSError:  # the folder that all is relative to is gone
        return inner != folder


def next_commands() -> list[str]:
    """What to type after `init`, in the project's folder. The README says the same."""
    return [
        "jackline serve --config jackline.toml",
        'jackline run assistant -i message="What do my notes say about tea?"   # in another terminal',
        "jackline doctor --config jackline.toml",
    ]


def project_files() -> dict[str, str]:
    """The text of each file of the project, by its path there."""
    starter = files("jackline_server.commands").joinpath("starter")
    return {name: _text(starter, source) for name, source in _PROJECT.items()}


def _text(starter: Traversable, source: str) -> str:
    text = starter.joinpath(source).read_text("utf-8")
    return text.replace(json.dumps(_PYTHON), json.dumps(sys.executable))


def _can_serve() -> bool:
    """True if the server extra is installed."""
    try:
        version(_OF_THE_SERVER)
    except PackageNotFoundError:
        return False
    return True
