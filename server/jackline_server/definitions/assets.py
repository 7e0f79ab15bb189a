"""Steering and skill files: from the bytes beside a workflow to sections of a system message.

Owns the paths that a step may name, size and encoding of files, and what follows from a missing one. Does not
own opening them (`files`): their content arrives with the source and is data, never config.
"""

from collections.abc import Mapping

from jackline_server.core.plan import PromptSection
from jackline_server.definitions import secret_scan
from jackline_server.definitions.pinned_source import is_pins
from jackline_server.definitions.report import Report
from jackline_server.definitions.shapes import AgentShape, AnyStep
from jackline_server.definitions.yaml_nodes import Mark, Path
from jackline_server.runtime.pinned_tools import MAX_PINS_BYTES
from jackline_server.runtime.ports.definitions import Source

MAX_SOURCE_BYTES = 256 * 1024
MAX_FILES = 200
_MAX_PATH = 255


def path_problem(name: str) -> str | None:
    """Why a file can't be named so inside a step's folder, or None."""
    if not name or len(name) > _MAX_PATH:
        return f"a file name has 1 to {_MAX_PATH} characters"
    if any(character < " " or character in '\\:*?"<>|\x7f' for character in name) or not name.isprintable():
        return 'a file name has no control characters and none of \\ : * ? " < > |'
    if any(part in ("", ".", "..") or part != part.strip() for part in name.split("/")):
        return "a file is named from the step's own folder, without `..`"
    return None


def named_files(steps: Mapping[str, AnyStep]) -> dict[str, Path]:
    """Every file that the steps name, as `<step>/steering/<file>`, with the place that names it."""
    named: dict[str, Path] = {}
    for step_id, step in steps.items():
        if isinstance(step, AgentShape):
            for key, folder, files in (
                ("steering_files", "steering", step.steering_files),
                ("skills", "skills", step.skills),
            ):
                for index, file in enumerate(files):
                    named.setdefault(f"{step_id}/{folder}/{file}", ("steps", step_id, key, index))
    return named


class Assets:
    """The files of one source, decoded; missing ones are reported once and left out."""

    def __init__(self, *, source: Source, steps: Mapping[str, AnyStep], report: Report) -> None:
        self._texts: dict[str, str] = {}
        self.warnings: list[str] = []
        for name, path in named_files(steps).items():
            self._take(name, path, source, report)
        for name in sorted(set(source.files) - set(named_files(steps))):
            if is_pins(name):
                continue
            report.info("file_unused", f"no step names the file {name}")

    def sections(self, step_id: str, step: AnyStep) -> tuple[PromptSection, ...]:
        """The steering of a step, inline text first, then its skills."""
        sections: list[PromptSection] = []
        steering = getattr(step, "steering", None)
        if steering:
            sections.append(PromptSection(title="Steering", text=steering))
        if isinstance(step, AgentShape):
            sections += self._from_files(f"{step_id}/steering/", "Steering", step.steering_files)
            sections += self._from_files(f"{step_id}/skills/", "Skill", step.skills)
        return tuple(sections)

    def _from_files(self, folder: str, title: str, files: tuple[str, ...]) -> list[PromptSection]:
        texts = [(file, self._texts.get(folder + file, "")) for file in dict.fromkeys(files)]
        return [PromptSection(title=f"{title}: {file}", text=text) for file, text in texts if text.strip()]

    def _take(self, name: str, path: Path, source: Source, report: Report) -> None:
        file = name.split("/", 2)[2]
        if problem := path_problem(file):
            report.error("path_escape", problem, path)
            return
        data = source.files.get(name)
        if data is None:
            message = f"the file {name} is missing"
            report.warning("file_missing", f"{message}; runs go on without it", path)
            self.warnings.append(message)
            return
        try:
            self._texts[name] = data.decode("utf-8-sig")
        except UnicodeDecodeError:
            report.error("bad_encoding", f"the file {name} is not UTF-8", path)
            return
        if "\x00" in self._texts[name]:
            report.error("bad_encoding", f"the file {name} holds a NUL", path)


def check_source(source: Source, report: Report) -> None:
    """Sizes of all files together, their names, and secrets in any of them."""
    written = {name: data for name, data in source.files.items() if not is_pins(name)}
    total = len(source.yaml.encode("utf-8", "surrogatepass")) + sum(map(len, written.values()))
    if sum(map(len, source.files.values())) - sum(map(len, written.values())) > MAX_PINS_BYTES:
        report.error("too_large", f"the lock files of a workflow have at most {MAX_PINS_BYTES} bytes")
        return
    if total > MAX_SOURCE_BYTES or len(source.files) > MAX_FILES:
        message = f"a workflow with its files has at most {MAX_SOURCE_BYTES} bytes in {MAX_FILES} files"
        report.error("too_large", message)
        return
    for name in source.files:
        if problem := path_problem(name):
            report.error_at("path_escape", problem, Mark(0, 0), file=name[:_MAX_PATH])
    texts = {
        "": source.yaml,
        **{name: data.decode("utf-8", "replace") for name, data in written.items()},
    }
    for file, text in texts.items():
        for kind, mark in secret_scan.find(text):
            message = f"this looks like {kind}; secrets live in the operator's config"
            report.error_at("secret", message, mark, file=file)
