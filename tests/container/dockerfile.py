"""A Dockerfile and a .dockerignore as data, as far as this project uses them.

Owns reading both; an instruction or a flag that it does not know is an error, so that nothing is passed over.
Does not own what an instruction does: that is `image`'s.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import translate
from pathlib import Path, PurePosixPath

_KNOWN = frozenset({
    *("ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK"),
    *("LABEL", "RUN", "STOPSIGNAL", "USER", "VOLUME", "WORKDIR"),
})  # fmt: skip
_FLAGS: Mapping[str, frozenset[str]] = {
    "COPY": frozenset({"from", "chown"}),
    "RUN": frozenset({"mount"}),
    "HEALTHCHECK": frozenset({"interval", "timeout", "start-period", "retries"}),
}
_FLAG = re.compile(r"--([a-z-]+)=(\S+)\s+")
_PAIR = re.compile(r'([A-Za-z0-9_.]+)=(?:"((?:[^"\\]|\\.)*)"|(\S*))')
_VARIABLE = re.compile(r"\$\{(\w+)\}|\$(\w+)")


class BadDockerfile(AssertionError):
    """It holds something that this reader does not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """One instruction: its name, its flags (`--name=value`) and the rest of its text."""

    name: str
    line: int
    flags: Mapping[str, str]
    text: str

    def words(self) -> list[str]:
        """The exec form (a JSON array). Raises BadDockerfile for the shell form."""
        try:
            words: list[str] = json.loads(self.text)
        except ValueError:
            raise BadDockerfile(f"line {self.line}: {self.name} is not in exec form") from None
        return words

    def pairs(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Its `KEY=value` pairs, with variables put in."""
        return {key: expanded(quoted or bare, variables) for key, quoted, bare in _PAIR.findall(self.text)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What follows a FROM, up to the next one."""

    name: str
    base: str
    instructions: tuple[Instruction, ...]

    def only(self, name: str) -> Instruction:
        """The one instruction of this name."""
        (found,) = (each for each in self.instructions if each.name == name)
        return found


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """The text with `$NAME` and `${NAME}` replaced. An unset variable is an error here."""
    return _VARIABLE.sub(lambda match: variables[match[1] or match[2]], text)


def read_stages(text: str) -> list[Stage]:
    """The stages of a Dockerfile. Raises BadDockerfile."""
    arguments: dict[str, str] = {}
    stages: list[tuple[str, str, list[Instruction]]] = []
    for each in _instructions(text):
        if each.name == "FROM":
            base, word, name = each.text.split()
            if word != "AS":
                raise BadDockerfile(f"line {each.line}: a stage without a name")
            stages.append((name, expanded(base, arguments), []))
        elif stages:
            stages[-1][2].append(each)
        elif each.name == "ARG":
            arguments |= each.pairs(arguments)
        else:
            raise BadDockerfile(f"line {each.line}: {each.name} before FROM")
    return [Stage(name=name, base=base, instructions=tuple(found)) for name, base, found in stages]


def _instructions(text: str) -> Iterator[Instruction]:
    collected, start = "", 0
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith("#") or (not line.strip() and not collected):
            continue
        start = start or number
        if line.endswith("\\"):
            collected += line[:-1]
            continue
        yield _instruction(collected + line, start)
        collected, start = "", 0
    if collected:
        raise BadDockerfile("the last line is not ended")


def _instruction(line: str, number: int) -> Instruction:
    name, _, rest = line.strip().partition(" ")
    if name not in _KNOWN:
        raise BadDockerfile(f"line {number}: unknown instruction {name}")
    flags: dict[str, str] = {}
    rest = rest.lstrip()
    while found := _FLAG.match(rest):
        if found[1] not in _FLAGS.get(name, frozenset()):
            raise BadDockerfile(f"line {number}: unknown flag --{found[1]} of {name}")
        flags[found[1]] = found[2]
        rest = rest[found.end() :]
    if rest.startswith("--"):
        raise BadDockerfile(f"line {number}: unknown flag of {name}")
    return Instruction(name=name, line=number, flags=flags, text=rest.strip())


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignore:
    """A .dockerignore: patterns in order, of which the last that fits decides."""

    rules: tuple[tuple[re.Pattern[str], bool], ...]

    def leaves_out(self, path: PurePosixPath) -> bool:
        """True if this path, relative to the context, is not part of it."""
        left_out = False
        names = [str(path), *(str(parent) for parent in path.parents)]
        for pattern, negated in self.rules:
            if any(pattern.fullmatch(name) for name in names):
                left_out = not negated
        return left_out


def read_ignore(text: str) -> Ignore:
    """Read a .dockerignore."""
    lines = (line.strip() for line in text.splitlines())
    return Ignore(
        rules=tuple(
            (_pattern(line.removeprefix("!")), line.startswith("!"))
            for line in lines
            if line and not line.startswith("#")
        )
    )


def _pattern(glob: str) -> re.Pattern[str]:
    """`*` stays in one folder; a leading `**/` is any number of folders."""
    anywhere = glob.startswith("**/")
    parts = [translate(part)[len("(?s:") : -len(r")\Z")] for part in glob.removeprefix("**/").split("/")]
    one_folder = "/".join(part.replace(".*", "[^/]*") for part in parts)
    return re.compile(f"(?:.*/)?{one_folder}" if anywhere else one_folder)


def context_files(root: Path, ignore: Ignore) -> list[PurePosixPath]:
    """The files of a build context, relative to its root, in order."""
    files = (path for path in _walk(root, PurePosixPath(), ignore))
    return sorted(files)


def _walk(root: Path, folder: PurePosixPath, ignore: Ignore) -> Iterator[PurePosixPath]:
    for found in sorted((root / folder).iterdir()):
        path = folder / found.name
        if found.is_dir() and not found.is_symlink():
            if not ignore.leaves_out(path) or _may_hold_kept(path, ignore):
                yield from _walk(root, path, ignore)
        elif not ignore.leaves_out(path):
            yield path


def _may_hold_kept(folder: PurePosixPath, ignore: Ignore) -> bool:
    """True if a negated pattern could fit below a folder that is left out: `client` for `!client/python`."""
    prefix = re.escape(f"{folder}/")
    return any(negated and pattern.pattern.startswith(prefix) for pattern, negated in ignore.rules)
