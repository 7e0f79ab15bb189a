"""The whole config, from its sources to settings, with everything that is wrong said at once."""

from collections.abc import Callable, Mapping
from pathlib import Path

from jackline_server.config.connections import read_connections
from jackline_server.config.data_sources import read_data_sources
from jackline_server.config.document import PREFIX, Sources, Tree, hidden_texts, read_document
from jackline_server.config.gates import read_hooks, read_policies
from jackline_server.config.problems import ConfigError, Problem
from jackline_server.config.section import Section
from jackline_server.config.sections import (
    SECTIONS,
    SECTIONS_NOT_BUILT,
    SERVER_KEYS,
    read_function_processes,
    read_function_roots,
    read_models,
    read_run_settings,
    read_server,
    read_tenant_limits,
)
from jackline_server.config.settings import Config
from jackline_server.config.webhooks import read_webhooks
from jackline_server.runtime.ports.secrets import Secret

FILE_VARIABLE = f"{PREFIX}CONFIG"


def load_config(
    *,
    file: Path | None = None,
    environ: Mapping[str, str],
    flags: Mapping[str, str | int | bool] | None = None,
) -> Config:
    """Read the config. `file` wins over the variable JACKLINE_CONFIG; without either there is no file.

    Reads the file, the files it refers to, and nothing else; writes nothing. `flags` are named like the TOML
    path (`server.listen`, or just `listen`); leave out a flag that was not given.

    Raises:
        ConfigError: with every problem found. The process should end with code 2 then.
    """
    return read_config(file=file, environ=environ, flags=flags, make=Section)


def read_config(
    *,
    file: Path | None,
    environ: Mapping[str, str],
    flags: Mapping[str, str | int | bool] | None,
    make: Callable[[Tree, tuple[str, ...], list[Problem]], Section],
) -> Config:
    """Read the config through tables that `make` makes; see `load_config`. Raises ConfigError."""
    if file is None and (named := environ.get(FILE_VARIABLE)):
        file = Path(named)
    document = read_document(
        Sources(file=file, environ=environ, flags=flags or {}, server_keys=SERVER_KEYS, sections=SECTIONS)
    )
    problems: list[Problem] = list(document.problems)
    root = make(document.tree, (), problems)
    sections = {name: root.table(name) or make({}, (name,), problems) for name in SECTIONS}
    root.finish(not_built=SECTIONS_NOT_BUILT)
    connections = read_connections(sections["connections"])
    config = Config(
        file=file,
        server=read_server(sections["server"]),
        models=read_models(sections["models"]),
        connections=connections.http,
        mcp_connections=connections.mcp,
        grpc_connections=connections.grpc,
        worker_connections=connections.worker,
        data_sources=read_data_sources(sections["data_sources"]),
        function_processes=read_function_processes(sections["functions"]),
        function_roots=read_function_roots(sections["functions"]),
        run=read_run_settings(sections["limits"]),
        tenant=read_tenant_limits(sections["limits"]),
        hooks=read_hooks(sections["hooks"]),
        policies=read_policies(sections["policies"]),
        webhooks=read_webhooks(sections["webhooks"]),
        notices=tuple(document.notices),
        hidden=tuple(map(Secret, dict.fromkeys(hidden_texts(document.tree)))),
    )
    if problems:
        raise ConfigError(problems)
    return config
