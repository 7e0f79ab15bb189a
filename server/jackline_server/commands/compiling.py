"""Workflow files compiled as a server would: against the config, and the MCP servers as they answer now.

Owns asking those servers before compiling again. Does not own compiling (`definitions`).
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from jackline_server.bootstrap import Workbench
from jackline_server.config import Config
from jackline_server.core.frozen import change
from jackline_server.definitions.files import Loaded, load_file, load_folder
from jackline_server.runtime.ports.definitions import Compilation, Finding, Signature, Source
from jackline_server.runtime.workflows.named_workflows import known_among


async def compiled(bench: Workbench, source: Source, *, folder: Path | None = None) -> Compilation:
    """Compile, and once more when the MCP servers that it names have been asked.

    A workflow that it runs is looked for among those of the folder; elsewhere nobody looks.
    """
    found = await asyncio.to_thread(bench.compiler.compile, source)
    if found.runs and folder is not None:
        source = change(source, known=await asyncio.to_thread(_known, bench, found.runs, folder))
        found = await asyncio.to_thread(bench.compiler.compile, source)
    if found.catalogs:
        await bench.catalogs.refresh(found.catalogs)
        found = await asyncio.to_thread(bench.compiler.compile, source)
    return found


def _known(bench: Workbench, runs: Sequence[str], folder: Path) -> dict[str, Signature | str]:
    try:
        beside = [one.source for one in load_folder(folder)]
    except OSError:  # whoever reads the workflow itself says so
        return {}
    return known_among(runs, (bench.compiler.signature(one) for one in beside if one is not None))


async def loaded_workflow(path: Path) -> Loaded:
    """A workflow file with the files that it names. Raises OSError if its folder can't be opened."""
    return await asyncio.to_thread(load_file, path)


def place_of(finding: Finding, path: Path, name: str) -> str:
    """Where a finding is, as an editor opens it. The workflow at `path` was compiled under that name."""
    file = path if finding.file == name else path.parent / finding.file
    return f"{file}:{finding.line}:{finding.column}" if finding.line else str(file)


def workflow_files(config: Config) -> list[Path]:
    """The files of the config's folder of workflows. Raises OSError if it can't be opened."""
    folder = config.server.workflows
    return (
        [] if folder is None else [folder / one.file for one in load_folder(folder) if one.source is not None]
    )
