"""`jackline schema`: JSON Schemas of the files that people write, for editors.

Owns putting them together with what each key is: those words are those of the reference pages, and a test
compares the two.
"""

import json
from enum import StrEnum
from importlib.resources import files
from typing import Annotated, Any

import typer

from jackline_server.commands.given import say_json


class File(StrEnum):
    """The files that have a schema."""

    WORKFLOW = "workflow"
    CONFIG = "config"
    SCRIPT = "script"
    EVAL = "eval"


def schema(
    file: Annotated[File, typer.Argument(help="workflow, config, script or eval.")] = File.WORKFLOW,
) -> None:
    """Print the JSON Schema (draft 2020-12) of a workflow file, the config, a script, or a file of cases.

    Save it, and tell the editor: `# yaml-language-server: $schema=workflow.schema.json` on the first line.
    """
    say_json(schema_of(file))


def schema_of(file: File) -> dict[str, Any]:
    """The schema of one kind of file."""
    texts = json.loads(files("jackline_server.commands").joinpath("key_texts.json").read_text("utf-8"))
    match file:
        case File.WORKFLOW:
            from jackline_server.definitions.json_schema import workflow_schema  # noqa: PLC0415 - help needs none

            return workflow_schema(texts["workflow"])
        case File.CONFIG:
            from jackline_server.config.json_schema import config_schema  # noqa: PLC0415 - help needs none of it

            return config_schema(texts["config"])
        case File.SCRIPT:
            from jackline_server.models.script_schema import script_schema  # noqa: PLC0415 - help needs none

            return script_schema(texts["script"])
        case File.EVAL:
            from jackline_server.commands.evaluation.shapes import SuiteShape  # noqa: PLC0415 - help needs none
            from jackline_server.definitions.json_schema import shape_schema  # noqa: PLC0415 - see above

            return shape_schema(SuiteShape, texts["eval"], title="A file of cases for jackline eval")
