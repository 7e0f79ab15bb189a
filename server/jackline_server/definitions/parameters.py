"""The parameters of a tool, as JSON Schema: explicit, derived from placeholders, or as its owner says.

Owns derivation, the removal of bound names, and the checks that templates, bind targets and parameters agree.
Does not own what is done with a value at run time.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from jackline_server.core import templates
from jackline_server.core.frozen import frozen
from jackline_server.core.plan import JsonValue
from jackline_server.core.sql_text import CALL_KEY
from jackline_server.definitions.catalog import FunctionDescription, nearest
from jackline_server.definitions.report import Report
from jackline_server.definitions.shapes import (
    AgentShape,
    ChildShape,
    Document,
    FunctionShape,
    GrpcShape,
    HttpShape,
    HumanShape,
    McpShape,
    SqlShape,
    ToolShape,
    ToolStepShape,
    WorkerShape,
)
from jackline_server.definitions.yaml_nodes import Path


class SchemaChecker(Protocol):
    """JSON Schema, as far as making a plan needs it."""

    def refusal(self, schema_json: str) -> tuple[tuple[str | int, ...], str] | None:
        """Where in a schema something is refused, and in one line why; None if it can be used."""
        ...

    def problem(self, schema_json: str, value: JsonValue) -> str | None:
        """Say in one line why `value` does not fit, or return None if it does."""
        ...


def json_text(value: object) -> str:
    """A JSON document of the file as text, in the order it was written."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=float)


def placeholders(
    step: HttpShape | McpShape | SqlShape | GrpcShape | WorkerShape | HumanShape, path: Path, report: Report
) -> tuple[str, ...]:
    """The names in all templates of a step, each once; malformed ones are reported."""
    texts: list[tuple[Path, object]]
    if isinstance(step, McpShape | GrpcShape | WorkerShape):
        texts = [((*path, "arguments", key), value) for key, value in step.arguments.items()]
    elif isinstance(step, SqlShape):
        texts = [((*path, "statement"), step.statement)]
    elif isinstance(step, HumanShape):
        texts = [((*path, "question"), step.question)]
    else:
        texts = [((*path, "path"), step.path), ((*path, "body"), step.body)]
        texts += [((*path, "query", key), text) for key, text in step.query.items()]
        texts += [((*path, "headers", key), text) for key, text in step.headers.items()]
    found: dict[str, None] = {}
    for place, text in texts:
        try:
            found.update(dict.fromkeys(templates.names_in(as_json(text))))
        except templates.TemplateError as error:
            report.error("bad_template", str(error), place)
    found.pop(CALL_KEY if isinstance(step, SqlShape) else "", None)
    return tuple(found)


def as_json(value: object) -> JsonValue:
    """A document of the file as JSON values: lists for tuples, floats for Decimal."""
    return json.loads(json_text(value))


@frozen
class Signature:
    """What a tool step takes. `names` is None if its schema does not say."""

    schema: Document
    names: frozenset[str] | None
    explicit: bool


PAYLOAD: Document = {
    "type": "object",
    "properties": {"payload": {"type": "object", "description": "What it is given to work on."}},
    "required": ["payload"],
    "additionalProperties": False,
}
"""What a model is asked for where nobody says what a run of its own takes."""

_PAYLOAD = Signature(schema=PAYLOAD, names=frozenset({"payload"}), explicit=False)
_UNKNOWN = Signature(schema=PAYLOAD, names=None, explicit=False)
_DESCRIBED = FunctionShape | McpShape | GrpcShape | WorkerShape | ChildShape


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Derives and checks parameters for one compilation."""

    schemas: SchemaChecker
    report: Report
    _names: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    def of_entry(
        self,
        entry: ToolShape,
        step: ToolStepShape | AgentShape,
        place: Path,
        function: FunctionDescription | None,
    ) -> str:
        """The schema that a model sees: the tool's parameters without bound names."""
        signature = self._signature(entry, step, place, function)
        self._check_bind(entry, signature, place, self._taken(step, entry.ref, function))
        self._check_templates(entry, step, signature, place)
        schema = without(signature.schema, frozenset(entry.bind))
        return json_text(schema)

    def check_schema(self, schema: object, place: Path) -> bool:
        """True if a schema of the file can be used; else it is reported."""
        refused = self.schemas.refusal(json_text(schema))
        if refused is not None:
            where, problem = refused
            self.report.error("bad_schema", problem, (*place, *where))
        return refused is None

    def _names_in(self, step: HttpShape | McpShape | SqlShape | HumanShape, ref: str) -> tuple[str, ...]:
        """Its placeholders, looked for once, however many agents have it as a tool."""
        if ref not in self._names:
            self._names[ref] = placeholders(step, ("steps", ref), self.report)
        return self._names[ref]

    def _signature(
        self,
        entry: ToolShape,
        step: ToolStepShape | AgentShape,
        place: Path,
        function: FunctionDescription | None,
    ) -> Signature:
        if entry.parameters is not None:
            return self._explicit(entry.parameters, (*place, "parameters"))
        if isinstance(step, AgentShape):
            return _PAYLOAD
        if step.parameters is not None:
            return self._explicit(step.parameters, ("steps", entry.ref, "parameters"))
        if isinstance(step, ChildShape) and function is None:
            return _UNKNOWN
        given = frozenset(step.input or ())
        if isinstance(step, HttpShape | SqlShape | HumanShape):
            every = self._names_in(step, entry.ref)
            names = [name for name in every if name not in given or name in entry.bind]
            schema: Document = {
                "type": "object",
                "properties": {name: {"type": "string"} for name in names},
                "required": names,
                "additionalProperties": False,
            }
            return Signature(schema=schema, names=frozenset(every), explicit=False)
        if isinstance(step, _DESCRIBED) and function is not None:
            described: Document = json.loads(function.parameters_json)
            names_known = frozenset(described.get("properties", {}))
            return Signature(schema=without(described, given), names=names_known, explicit=False)
        return Signature(schema={"type": "object", "properties": {}}, names=None, explicit=False)

    def _explicit(self, schema: Document, place: Path) -> Signature:
        if schema.get("type") != "object":
            self.report.error("bad_parameters", "`parameters` is a JSON Schema with `type: object`", place)
        elif self.check_schema(schema, place):
            properties = schema.get("properties", {})
            return Signature(schema=schema, names=frozenset(properties), explicit=True)
        return Signature(schema=schema, names=None, explicit=True)

    def _taken(
        self, step: ToolStepShape | AgentShape, ref: str, function: FunctionDescription | None
    ) -> frozenset[str]:
        """The names that the step itself takes, whatever a model is shown."""
        if isinstance(step, HttpShape | SqlShape | HumanShape):
            return frozenset(self._names_in(step, ref))
        described: Document = json.loads(function.parameters_json) if function is not None else {}
        return frozenset(described.get("properties", {}))

    def _check_bind(self, entry: ToolShape, signature: Signature, place: Path, taken: frozenset[str]) -> None:
        if signature.names is None:
            return
        known = signature.names | taken
        for name in entry.bind:
            if name not in known:
                message = f"`{entry.ref}` has no parameter `{name}`{nearest(name, known)}"
                self.report.error("bind_unknown", message, (*place, "bind", name), of_key=True)

    def _check_templates(
        self, entry: ToolShape, step: ToolStepShape | AgentShape, signature: Signature, place: Path
    ) -> None:
        if (
            not isinstance(step, HttpShape | SqlShape | HumanShape)
            or not signature.explicit
            or signature.names is None
        ):
            return
        known = signature.names | frozenset(entry.bind) | frozenset(step.input or ())
        for name in self._names_in(step, entry.ref):
            if name not in known:
                message = f"`{{{{ {name} }}}}` is no parameter of `{entry.ref}`{nearest(name, known)}"
                self.report.error("template_unknown", message, ("steps", entry.ref))


def without(schema: Mapping[str, Any], names: frozenset[str]) -> Document:
    """The schema without some of its properties."""
    if not names:
        return dict(schema)
    left: Document = dict(schema)
    if isinstance(left.get("properties"), dict):
        left["properties"] = {key: value for key, value in left["properties"].items() if key not in names}
    if isinstance(left.get("required"), list | tuple):
        left["required"] = [name for name in left["required"] if name not in names]
    return left
