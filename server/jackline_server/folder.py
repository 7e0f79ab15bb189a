"""The server's own folder of workflows: imported at boot, then watched.

Owns the watch, and what a server that boots does not wait for: a workflow whose tools a server elsewhere has
to list is imported when that has answered, and until then is on its way (`arrivals`). A file that can't be
compiled keeps its last good revision; what is wrong with it is logged once for each change, and told to who
asks for one that has none (`unserved`).
"""

import asyncio
import logging
import os
from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path

from jackline_server.definitions.files import Loaded, load_folder
from jackline_server.runtime.ports.definitions import Finding, Severity, Source
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from jackline_server.runtime.refusals import Refused
from jackline_server.runtime.workflows.named_workflows import CHILD_UNKNOWN
from jackline_server.runtime.workflows.workflows import Workflows

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

    def __init__(
        self, folder: Path | None, *, workflows: Workflows, at_hand: Collection[str] = frozenset()
    ) -> None:
        """`at_hand` are connections whose tools are known without asking a server."""
        self._folder = folder
        self._at_hand = frozenset(at_hand)
        self._coming: list[tuple[str, Loaded]] = []
        self._early: list[Loaded] = []
        self._workflows = workflows
        self._seen: dict[str, Source] = {}
        self._problems: dict[str, str] = {}
        self._findings: dict[str, Sequence[Finding]] = {}

    async def import_at_hand(self) -> None:
        """Put every workflow that no server need be asked for. `watch` puts the others, which are awaited."""
        now: list[Loaded] = []
        for found in await self._loaded():
            name, asked = "", frozenset[str]()
            if found.source is not None:
                name, asked = await self._workflows.asked_for(found.source)
            if name and not asked <= self._at_hand:
                self._coming.append((name, found))
                self._workflows.arrivals.expect(name, asked - self._at_hand)
            else:
                now.append(found)
        await self._import_each(now)

    async def import_all(self) -> None:
        """Put every workflow of the folder that has changed since the last time."""
        await self._import_each(await self._loaded())

    async def watch(self) -> None:
        """Import what is on its way, then all again and again, until cancelled."""
        await asyncio.gather(*(self._arrive(name, found) for name, found in self._coming))
        self._coming.clear()
        await self._tell_early()
        while self._folder is not None:
            await asyncio.sleep(POLL_S)
            await self.import_all()

    async def _arrive(self, name: str, found: Loaded) -> None:
        try:
            if await self._import(found):
                self._early.append(found)
        finally:
            self._workflows.arrivals.end(name)

    async def _loaded(self) -> list[Loaded]:
        if self._folder is None:
            return []
        try:
            loaded = await asyncio.to_thread(load_folder, self._folder)
        except OSError as error:
            self._tell(str(self._folder), f"the folder can't be opened: {error.strerror}")
            return []
        self._forget_all_but({found.file for found in loaded})
        return loaded

    def _forget_all_but(self, files: AbstractSet[str]) -> None:
        """One that is gone and comes again is read like one that was never there."""
        self._workflows.unserved.keep_only(files)
        for kept in (self._seen, self._problems, self._findings):
            for gone in kept.keys() - files:
                del kept[gone]

    async def _import_each(self, loaded: Sequence[Loaded]) -> None:
        self._early += [found for found in loaded if await self._import(found)]
        if not self._coming:
            await self._tell_early()

    async def _tell_early(self) -> None:
        """The findings of those that run one which was not there yet, and may have been put since."""
        early, self._early = self._early, []
        for found in early:
            await self._tell_again(found)

    async def _import(self, found: Loaded) -> bool:
        """Put one workflow; true if it runs one that is not there yet: its findings are not told then."""
        for problem in found.problems:
            self._tell(found.file, f"{problem.message} [{problem.code}]")
        source = found.source
        if source is None:
            self._seen.pop(found.file, None)
            self._refuse(found.file, "", found.problems)
            return False
        if self._seen.get(found.file) == source:
            return False
        try:
            compilation = await self._workflows.import_file(DEFAULT_TENANT, source)
        except Refused as refused:
            self._tell(found.file, refused.message)
            return False
        if None not in compilation.catalogs.values():  # else its MCP server may answer the next time
            self._seen[found.file] = source
        if compilation.plan is None:
            self._refuse(found.file, compilation.name, compilation.findings)
        else:
            self._workflows.unserved.forget(found.file)
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

    def _refuse(self, file: str, name: str, findings: Sequence[Finding]) -> None:
        """Whoever asks for its workflow is told of the first error, if there is no older revision to run."""
        error = next((one for one in findings if one.severity is Severity.ERROR), None)
        if error is not None:
            self._workflows.unserved.note(file, name, error)

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
