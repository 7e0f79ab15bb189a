"""The server's own folder of workflows: imported at boot, then watched.

Owns the watch. A file that can't be compiled keeps its last good revision; what is wrong with it is logged
once for each change.
"""

import asyncio
import logging
import os
from collections.abc import Sequence
from pathlib import Path

from jackline_server.definitions.files import Loaded, load_folder
from jackline_server.runtime.named_workflows import CHILD_UNKNOWN
from jackline_server.runtime.ports import Finding, Severity, Source
from jackline_server.runtime.refusals import Refused
from jackline_server.runtime.store_ports import DEFAULT_TENANT
from jackline_server.runtime.workflows import Workflows

_log = logging.getLogger(__name__)

POLL_S = 2.0


def cannot_open(folder: Path | None) -> str | None:
    """Why a server can't start with this folder of workflows, or None. One that goes later is only logged."""
    if folder is None:
        return None
    try:
        os.close(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
    except OSError as error:
        return f"the folder of workflows {folder} can't be opened: {error.strerror}"
    return None


class WorkflowFolder:
    """The folder of `--workflows`; None for a server without one."""

    def __init__(self, folder: Path | None, *, workflows: Workflows) -> None:
        self._folder = folder
        self._workflows = workflows
        self._seen: dict[str, Source] = {}
        self._problems: dict[str, str] = {}
        self._findings: dict[str, Sequence[Finding]] = {}

    async def import_all(self) -> None:
        """Put every workflow of the folder that has changed since the last time."""
        if self._folder is None:
            return
        try:
            loaded = await asyncio.to_thread(load_folder, self._folder)
        except OSError as error:
            self._tell(str(self._folder), f"the folder can't be opened: {error.strerror}")
            return
        early = [found for found in loaded if await self._import(found)]
        for found in early:  # what they run may have been put since
            await self._tell_again(found)

    async def watch(self) -> None:
        """Import again and again, until cancelled."""
        while self._folder is not None:
            await asyncio.sleep(POLL_S)
            await self.import_all()

    async def _import(self, found: Loaded) -> bool:
        """Put one workflow; true if it runs one that is not there yet: its findings are not told then."""
        for problem in found.problems:
            self._tell(found.file, f"{problem.message} [{problem.code}]")
        source = found.source
        if source is None or self._seen.get(found.file) == source:
            return False
        try:
            compilation = await self._workflows.import_file(DEFAULT_TENANT, source)
        except Refused as refused:
            self._tell(found.file, refused.message)
            return False
        if None not in compilation.catalogs.values():  # else its MCP server may answer the next time
            self._seen[found.file] = source
        if compilation.plan is not None:
            _log.info("workflow %s is served from %s", compilation.name, found.file)
        if any(finding.code == CHILD_UNKNOWN for finding in compilation.findings):
            return True
        self._show(found.file, compilation.findings)
        return False

    async def _tell_again(self, found: Loaded) -> None:
        """The findings as they are now that all of the folder was put."""
        if found.source is None:
            return
        try:
            checked = await self._workflows.check(DEFAULT_TENANT, found.source)
        except Refused as refused:
            self._tell(found.file, refused.message)
        else:
            self._show(found.file, checked.findings)

    def _show(self, file: str, findings: Sequence[Finding]) -> None:
        if self._findings.get(file) == findings:
            return
        self._findings[file] = findings
        for finding in findings:
            if finding.severity is not Severity.INFO:
                place = f"{finding.file}:{finding.line}:{finding.column}"
                _log.warning("%s: %s: %s [%s]", place, finding.severity.value, finding.message, finding.code)

    def _tell(self, file: str, problem: str) -> None:
        if self._problems.get(file) != problem:
            self._problems[file] = problem
            _log.warning("workflow file %s: %s", file, problem)
