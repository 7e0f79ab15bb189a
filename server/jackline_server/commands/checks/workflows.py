"""The folder of workflows: each compiled as the server would at boot, its findings, and its pins.

Owns which of it keeps a workflow from being served. Imports the modules of functions, as the server does.
"""

import asyncio
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from jackline_server.bootstrap import Workbench
from jackline_server.commands.checks.findings import Check, Found, Verdict, ok, problem, warning
from jackline_server.commands.checks.machine import folder_problem
from jackline_server.commands.compiling import compiled, place_of
from jackline_server.config import Config
from jackline_server.core.plan import Plan
from jackline_server.definitions.files import Loaded, load_folder
from jackline_server.definitions.pinned_source import WORKER_WORDS
from jackline_server.runtime.ports.definitions import Compilation, Severity

_UNSERVED = "no mistake of the file: a worker of the pool connects to a running server; then put it again"
_ADVICE = "correct the file; docs/workflow.md has every key"


def workflow_checks(config: Config, bench: Workbench) -> list[Check]:
    """A check for each workflow of the folder. Reads the folder now: call it in a thread."""
    folder = config.server.workflows
    settled = folder_problem(folder)
    if folder is None or settled:
        return [_settled(settled)]
    try:
        workflows = load_folder(folder)
    except OSError as error:
        return [_settled([problem("workflows", f"{folder} can't be read: {error.strerror}", _ADVICE)])]
    if not workflows:
        what = f"{folder} holds no workflow: no .yaml or .yml in it or in a direct sub-folder"
        return [
            _settled([warning("workflows", what, "put one there; `jackline init` writes one to begin with")])
        ]
    return [
        Check(subject=f"workflow {folder / one.file}", look=partial(_workflow, one, folder, bench))
        for one in workflows
    ]


def _settled(found: Sequence[Found]) -> Check:
    async def look() -> Sequence[Found]:
        await asyncio.sleep(0)
        return found

    return Check(subject="workflows", look=look)


async def _workflow(loaded: Loaded, folder: Path, bench: Workbench) -> Sequence[Found]:
    subject = f"workflow {folder / loaded.file}"
    found = [problem(subject, one.message, _ADVICE) for one in loaded.problems]
    if loaded.source is None:
        return found
    compilation = await compiled(bench, loaded.source, folder=folder)
    found += _told(subject, compilation, folder / loaded.file, loaded.file)
    if compilation.plan is not None:
        found += await _changed(subject, compilation.plan, bench)
    if all(one.verdict is Verdict.OK for one in found):
        steps = len(compilation.plan.steps) if compilation.plan is not None else 0
        found = [ok(subject, f"{compilation.name}: no findings in {steps} step{'' if steps == 1 else 's'}")]
    return found


def _told(subject: str, compilation: Compilation, path: Path, name: str) -> Iterator[Found]:
    for finding in compilation.findings:
        what = f"{place_of(finding, path, name)}: {finding.message} [{finding.code}]"
        if finding.code == WORKER_WORDS.unavailable:
            yield warning(subject, what, _UNSERVED)
        elif finding.severity is Severity.ERROR:
            yield problem(subject, what, _ADVICE)
        elif finding.severity is Severity.WARNING:
            yield warning(subject, what)


async def _changed(subject: str, plan: Plan, bench: Workbench) -> list[Found]:
    """Tools that their servers describe differently from what is pinned: a run would not start."""
    changed = await bench.catalogs.changed(plan)
    if not changed:
        return []
    what = f"{', '.join(changed)}: not what is pinned any more; a run would be refused with TOOL_CHANGED"
    return [
        problem(subject, what, "look at the change with `jackline tools lock --all --check`, then lock again")
    ]
