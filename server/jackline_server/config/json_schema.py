"""The operator's config as JSON Schema (draft 2020-12), for editors: made by the readers of its sections.

The readers of `sections` and `connections` read a table that notes what they ask for: which keys there are,
of which type, within which range, with which default. So the schema has what the config has and no more.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jackline_server.config.connections import read_connection
from jackline_server.config.data_sources import read_data_sources
from jackline_server.config.effective import span_text
from jackline_server.config.gates import read_hooks, read_policies
from jackline_server.config.problems import ProblemCode
from jackline_server.config.section import Section
from jackline_server.config.sections import (
    ADAPTERS,
    CAPABILITIES,
    MAX_TOKENS_KEYS,
    NAME,
    NOT_PARAMETERS,
    UNKNOWN_PRICES,
    read_function_processes,
    read_function_roots,
    read_models,
    read_run_settings,
    read_server,
    read_tenant_limits,
)
from jackline_server.config.webhooks import ENDS, EVENTS, VIEWS, read_webhooks
from jackline_server.core.gate_plans import OnHookError
from jackline_server.core.plan import JsonValue
from jackline_server.runtime.ports.secrets import Secret

DRAFT = "https://json-schema.org/draft/2020-12/schema"

_SPAN_PATTERN = r"^[0-9]{1,9}(\.[0-9]{1,3})?(ms|s|m|h|d)$|\$\{"
_MOST_USD = 1_000_000
_TEXT: Mapping[str, Any] = {"type": "string", "minLength": 1}

Texts = Mapping[str, Mapping[str, str]]
"""What each key is, by section: `server`, `models`, `http`, `mcp`, `functions`, `hooks` and so on."""


def config_schema(texts: Texts) -> dict[str, Any]:
    """The schema of the whole file, every key described."""
    server, models, functions, limits = _Sketch(), _Sketch(), _Sketch(), _Sketch()
    read_server(server)
    read_models(models)
    read_function_processes(functions)
    read_function_roots(functions)
    read_run_settings(limits)
    read_tenant_limits(limits)
    profile = models.each()
    profile["properties"]["adapter"]["enum"] = list(ADAPTERS)
    profile["properties"]["max_tokens_key"]["enum"] = list(MAX_TOKENS_KEYS)
    profile["properties"]["params"]["propertyNames"] = {"not": {"enum": sorted(NOT_PARAMETERS)}}
    profile["properties"]["supports"]["items"] = {"enum": list(CAPABILITIES)}
    profile.pop("required", None)  # of a model without a script
    profile["anyOf"] = [{"required": ["model"]}, {"required": ["script"]}]
    profile["properties"]["unknown_price"]["enum"] = list(UNKNOWN_PRICES)
    for key, what in (
        ("input_per_million", "a million prompt tokens"),
        ("output_per_million", "a million completion tokens"),
        ("cached_per_million", "a million prompt tokens that the provider had cached"),
        ("reasoning_per_million", "a million completion tokens of reasoning"),
    ):
        for price in ("price", "ceiling_price"):
            profile["properties"][price]["properties"][key]["description"] = f"US dollars for {what}."
    limited = limits.schema()
    told = texts.get("limits", {})
    _describe(limited, {name.partition(".")[2]: text for name, text in told.items()})
    hooks, policies = _Sketch(), _Sketch()
    read_hooks(hooks)
    read_policies(policies)
    hook = hooks.each()
    hook["properties"]["on_error"]["enum"] = [mode.value for mode in OnHookError]
    hook.pop("required", None)  # of a hook without an entry point
    hook["oneOf"] = [{"required": ["class"]}, {"required": ["entry_point"]}]
    webhooks = _Sketch()
    read_webhooks(webhooks)
    described = {
        "server": _describe(server.schema(), texts.get("server", {})),
        "models": _named(_describe(profile, texts.get("models", {}))),
        "connections": _named(_connections(texts)),
        "functions": _describe(functions.schema(), texts.get("functions", {})),
        "data_sources": _named(_describe(_data_source(), texts.get("data_sources", {}))),
        "hooks": _named(_describe(hook, texts.get("hooks", {}))),
        "policies": _named(_describe(policies.each(), texts.get("policies", {}))),
        "webhooks": _named(_describe(_webhook(webhooks.each()), texts.get("webhooks", {}))),
        "limits": limited,
    }
    return {
        "$schema": DRAFT,
        "title": "The operator's config of Jackline",
        "description": "jackline.toml: what a server is, and what workflows may only name.",
        "type": "object",
        "properties": described,
        "additionalProperties": False,
    }


def _webhook(schema: dict[str, Any]) -> dict[str, Any]:
    """One with the words that may stand in its lists."""
    keys = schema["properties"]
    for key, known in (("events", EVENTS), ("states", ENDS)):
        keys[key]["items"] = {"enum": list(known)}
    keys["view"]["enum"] = list(VIEWS)
    return schema


def _data_source() -> dict[str, Any]:
    """One that is a file, or one that is a server."""
    sources = _Sketch()
    read_data_sources(sources)
    source = sources.each()
    source.pop("required", None)  # of one that is no file
    source["oneOf"] = [{"required": ["file"]}, {"required": ["url"]}]
    _describe_breaker(source)
    return source


def _describe_breaker(schema: dict[str, Any]) -> None:
    keys = schema["properties"]["breaker"]["properties"]
    keys["failures"]["description"] = "After how many failures in a row it is left alone; 0 is never."
    keys["cool_off"]["description"] = "For how long."


def _connections(texts: Texts) -> dict[str, Any]:
    """One of the kinds: `kind`, and for MCP `transport`, decide."""
    kinds: list[tuple[dict[str, str], str]] = [
        ({"kind": "http"}, "http"),
        ({"kind": "mcp", "transport": "stdio"}, "mcp"),
        ({"kind": "mcp", "transport": "http"}, "mcp"),
        ({"kind": "mcp", "transport": "sse"}, "mcp"),
        ({"kind": "grpc"}, "grpc"),
        ({"kind": "worker"}, "worker"),
    ]
    cases: list[dict[str, Any]] = []
    for answers, section in kinds:
        sketch = _Sketch(answers)
        read_connection("sketch", sketch)
        schema = _describe(sketch.schema(), texts.get(section, {}))
        for key, value in answers.items():
            schema["properties"][key]["const"] = value
        decides = {key: {"const": value} for key, value in answers.items()}
        _describe_breaker(schema)
        cases.append({"if": {"properties": decides, "required": list(answers)}, "then": schema})
    return {
        "type": "object",
        "required": ["kind"],
        "properties": {
            "kind": {"enum": ["http", "mcp", "grpc", "worker"]},
            "transport": {"enum": ["stdio", "http", "sse"]},
        },
        "allOf": [
            *cases,
            {"if": {"properties": {"kind": {"const": "mcp"}}}, "then": {"required": ["transport"]}},
        ],
    }


def _named(schema: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "propertyNames": {"pattern": f"^{NAME.pattern}$"},
        "additionalProperties": schema,
    }


def _describe(schema: dict[str, Any], texts: Mapping[str, str]) -> dict[str, Any]:
    """The schema with the text of each of its keys, and of the keys of its tables."""
    for key, value in schema.get("properties", {}).items():
        if text := texts.get(key):
            value["description"] = text
        if value.get("properties"):
            _describe(value, texts)
    return schema


class _Sketch(Section):
    """A table without content that notes what is asked of it. `answers` decide which way a reader goes."""

    def __init__(self, answers: Mapping[str, str] | None = None) -> None:
        super().__init__({}, (), [])
        self._answers = answers or {}
        self._properties: dict[str, dict[str, Any]] = {}
        self._required: list[str] = list(self._answers)
        self._tables: dict[str, _Sketch] = {}
        self._each: _Sketch | None = None
        self._is_open = False
        self._is_free = False
        self._is_closed = False

    def schema(self) -> dict[str, Any]:
        """What was asked for."""
        for key, table in self._tables.items():
            self._properties[key] = table.schema()
        if self._is_free:
            return {"type": "object"}
        if self._is_open:
            return {"type": "object", "additionalProperties": {"type": "string"}}
        schema: dict[str, Any] = {"type": "object", "properties": self._properties}
        if self._required:
            schema["required"] = self._required
        return {**schema, "additionalProperties": not self._is_closed}

    def each(self) -> dict[str, Any]:
        """What was asked of each table inside this one."""
        if self._each is None:
            raise LookupError("nobody asked for the tables")
        return self._each.schema()

    def _note(self, key: str, default: object = None, **schema: Any) -> None:  # noqa: ANN401 - JSON of any shape
        if default is not None:
            schema["default"] = default
        self._properties[key] = schema

    def text(self, key: str, *, default: str | None = None) -> str | None:
        self._note(key, default, **_TEXT)
        return self._answers.get(key, default)

    def secret(self, key: str) -> Secret | None:
        self._note(key, **_TEXT)
        return None

    def boolean(self, key: str, *, default: bool | None = None) -> bool | None:
        self._note(key, default, type="boolean")
        return default

    def integer(self, key: str, *, default: int, least: int, most: int) -> int:
        self._note(key, default if default >= least else None, type="integer", minimum=least, maximum=most)
        return default

    def span(self, key: str, *, default_ms: int, most_ms: int = 86_400_000) -> int:
        del most_ms
        self._note(key, span_text(default_ms), type="string", pattern=_SPAN_PATTERN, examples=["20s"])
        return default_ms

    def texts(self, key: str, *, default: Collection[str] = ()) -> tuple[str, ...]:
        self._note(key, list(default) or None, type="array", items=dict(_TEXT))
        return tuple(default)

    def command(self, key: str) -> tuple[str, ...] | None:
        """A program has to be there: with one a reader goes on to the other keys."""
        self._note(key, type="array", items={"type": "string"}, minItems=1)
        self._required.append(key)
        return ("/program",)

    def peeked(self, key: str) -> str | None:
        """Nothing is there."""
        del key

    def usd_micros(self, key: str) -> int | None:
        self._note(key, type="number", minimum=0, maximum=_MOST_USD)
        return None

    def path(self, key: str, *, default: Path | None = None) -> Path | None:
        self._note(key, None if default is None else str(default), **_TEXT)
        return default

    def table(self, key: str) -> Section | None:
        table = self._tables[key] = _Sketch()
        return table

    def tables(self) -> Iterator[tuple[str, Section]]:
        self._each = _Sketch()
        yield "name", self._each

    def keys(self) -> Sequence[str]:
        self._is_open = True
        return ()

    def free(self) -> dict[str, JsonValue]:
        self._is_free = True
        return {}

    def has_seen(self, key: str) -> bool:
        del key
        return False

    def finish(self, *, not_built: Collection[str] = ()) -> None:
        del not_built
        self._is_closed = True

    def problem(self, code: ProblemCode, key: str, message: str) -> None:
        """Nothing is wrong with what is not there."""

    def missing(self, key: str, message: str, *, instead: Collection[str] = ()) -> None:
        del message, instead
        if key not in self._required:
            self._required.append(key)
