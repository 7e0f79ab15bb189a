"""A prompt as a workflow: one agent step, composed on the command line.

Owns what `run --prompt` composes. Does not own running it, nor what the server makes of it.

The prompt is what the step is to do, so that it stands in the step's steering. The run's input, if there is
one, is data for it: a model is told never to follow what stands in data.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import typer

from jackline_client.cli.given import WorkflowFiles, read_file
from jackline_client.cli.yaml_text import yaml_text

COMPOSED = "the workflow of the prompt"
"""What it is called where a file has its path."""
_HINT = "--show-workflow prints it; --tools CONNECTION/TOOL takes single tools of a connection"
_NAME = "prompt"
_STEP = "task"
_LARGEST_PROMPT = 128 * 1024
_CONNECTION = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What was asked for."""

    text: str
    system: str = ""
    """Goes before the text."""
    model: str = ""
    """Empty: the only one that the server has."""
    tools: Mapping[str, tuple[str, ...]]
    """The tools to take from each connection; none named: all of them."""
    has_input: bool = False

    def with_model(self, served: Iterable[str]) -> "Prompt":
        """Returns it with a model. Refuses to choose among several that a server has."""
        if self.model:
            return self
        models = sorted(served)
        match models:
            case [only]:
                return replace(self, model=only)
            case []:
                raise typer.BadParameter(
                    "the server has no model profile; name a model with --model, such as openai/gpt-4o-mini"
                )
            case _:
                raise typer.BadParameter(f"say which model with --model: {', '.join(models)}")

    def composed(self) -> WorkflowFiles:
        """Returns the workflow as a file would have it."""
        step: dict[str, object] = {"kind": "agent"}
        step["steering"] = f"{self.system}\n\n{self.text}" if self.system else self.text
        if not self.has_input:
            step["input"] = {}
        if self.tools:
            step["tools"] = [
                {"from": name, **({"allow": list(allowed)} if allowed else {})}
                for name, allowed in self.tools.items()
            ]
        step["answer"] = "text"
        workflow: dict[str, object] = {"name": _NAME}
        if self.model:
            workflow["model"] = self.model
        workflow |= {"flow": [_STEP], "steps": {_STEP: step}}
        return WorkflowFiles(yaml=yaml_text(workflow), files={}, path=COMPOSED, hint=_HINT)


def read_prompt(text: str | None, file: str | None, *, name: str = "--prompt") -> str:
    """Reads a text as it is given, from a file, or for `-` from standard input."""
    if text is not None and file is not None:
        raise typer.BadParameter(f"give {name} or {name}-file, not both")
    if text is not None and text != "-":
        found = text
    else:
        path = file or "-"
        try:
            found = read_file(path, limit=_LARGEST_PROMPT).decode()
        except UnicodeDecodeError as error:
            raise typer.BadParameter(f"{path} is not UTF-8: byte {error.start + 1}") from error
    found = found.strip()
    if not found:
        raise typer.BadParameter(f"{name} is empty")
    if any(0xD800 <= ord(character) <= 0xDFFF for character in found) or "\0" in found:  # noqa: PLR2004 - surrogates
        raise typer.BadParameter(f"{name} is not text in UTF-8")
    return found


def read_tools(words: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Reads `connection` and `connection/tool`, several with commas; a connection alone means all it has."""
    allowed: dict[str, list[str] | None] = {}
    for word in (part.strip() for group in words for part in group.split(",")):
        name, separator, tool = word.partition("/")
        if _CONNECTION.fullmatch(name) is None or (separator and not tool):
            raise typer.BadParameter(
                f"--tools {word!r}: write CONNECTION for all its tools, or CONNECTION/TOOL for one"
            )
        named = allowed.setdefault(name, [])
        if not separator:
            allowed[name] = None
        elif named is not None and tool not in named:
            named.append(tool)
    return {name: tuple(tools or ()) for name, tools in allowed.items()}
