"""What exists on this server, as far as a workflow may name it.

Owns the question which names are known. Does not own where they come from: `bootstrap` fills it from the
operator's config and the function roots.
"""

import difflib
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from jackline_server.core.frozen import frozen
from jackline_server.core.gate_plans import HookPlan
from jackline_server.core.plan import ModelPlan
from jackline_server.definitions import defaults
from jackline_server.runtime.model_providers import automatic_adapter
from jackline_server.runtime.pinned_tools import Catalog as McpCatalog
from jackline_server.runtime.pinned_tools import CatalogConnection
from jackline_server.runtime.ports.sql import DataSource

_PROVIDER_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,62}(?:/[A-Za-z0-9][A-Za-z0-9_.:@+-]{0,126}){1,4}")


@frozen
class FunctionDescription:
    """A function of the operator's roots: JSON Schema of its parameters, and its docstring."""

    parameters_json: str
    docstring: str


class Functions(Protocol):
    """The functions that workflows may name."""

    def describe(self, function: str) -> FunctionDescription | str:
        """Describe `package.module:name`, or say in one line why it can't be used."""
        ...


class ToolCatalogs(Protocol):
    """The MCP connections of the operator's config, and their tools as they were fetched last."""

    def names(self) -> Collection[str]:
        """The connections."""
        ...

    def connection(self, name: str) -> CatalogConnection | None:
        """What the operator says of one."""
        ...

    def catalog(self, name: str) -> McpCatalog | str:
        """Its tools, or in one line why there are none. Asks nobody."""
        ...


@dataclass(frozen=True, slots=True)
class NoMcpCatalogs:
    """For a server without MCP connections."""

    def names(self) -> Collection[str]:
        """There is none."""
        return ()

    def connection(self, name: str) -> CatalogConnection | None:
        """There is none."""
        del name

    def catalog(self, name: str) -> McpCatalog | str:
        """There is none."""
        del name
        return "this server has no MCP connections"


class Hooks(Protocol):
    """The hooks that the operator declared."""

    def names(self) -> Collection[str]:
        """All of them."""
        ...

    def describe(self, name: str) -> HookPlan | str:
        """How one is asked, or in one line why it can't be used."""
        ...


@dataclass(frozen=True, slots=True)
class NoHooks:
    """For a server without hooks."""

    def names(self) -> Collection[str]:
        """There is none."""
        return ()

    def describe(self, name: str) -> HookPlan | str:
        """There is none."""
        return f"there is no hook {name!r} in the server's config"


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """What a workflow may name: profiles, connections, data sources, functions, tools, hooks, policies.

    `regions` are those that telephone numbers are known of.
    """

    models: Mapping[str, ModelPlan]
    http_connections: frozenset[str]
    functions: Functions
    mcp: ToolCatalogs = field(default_factory=NoMcpCatalogs)
    data_sources: Mapping[str, DataSource] = field(default_factory=dict[str, DataSource])
    grpc: ToolCatalogs = field(default_factory=NoMcpCatalogs)
    workers: ToolCatalogs = field(default_factory=NoMcpCatalogs)
    hooks: Hooks = field(default_factory=NoHooks)
    policies: frozenset[str] = frozenset()
    regions: frozenset[str] = frozenset()
    fallbacks: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Of a profile, the profiles that are asked when it can't be reached."""

    def model(self, name: str) -> ModelPlan | None:
        """The profile of that name; for `provider/model` one made on the spot, without a price."""
        if name in self.models:
            return self.models[name]
        if not _PROVIDER_NAME.fullmatch(name):
            return None
        return ModelPlan(
            profile=name,
            model=name,
            adapter=automatic_adapter(name),
            context_window=defaults.CONTEXT_WINDOW,
            max_output_tokens=defaults.MAX_OUTPUT_TOKENS,
            price=None,
            retries=defaults.MODEL_RETRIES,
            retry_base_ms=defaults.MODEL_RETRY_BASE_MS,
            retry_cap_ms=defaults.MODEL_RETRY_CAP_MS,
            native_schema=True,
        )


@dataclass(frozen=True, slots=True)
class NoFunctions:
    """For a server without function roots."""

    def describe(self, function: str) -> FunctionDescription | str:
        """Every function is refused."""
        return "this server has no function roots; add [functions] roots to its config"


def nearest(name: str, known: Iterable[str]) -> str:
    """The hint `; did you mean …?`, or nothing if no known name is near."""
    near = difflib.get_close_matches(name[:64], sorted(known), n=1, cutoff=0.6)
    return f"; did you mean `{near[0]}`?" if near else ""
