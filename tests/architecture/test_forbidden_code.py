"""What no module of the server may do: go out by itself, run data as code, leave a task to nobody.

Proves SC10 and SC16.
"""

import ast
from collections.abc import Callable, Iterator, Mapping

from tests.architecture.source_tree import CLIENT, SERVER, called_names, dotted, imported_names, modules

HTTP_CLIENTS = (
    "httpx",
    "httpx2",
    "requests",
    "urllib3",
    "urllib.request",
    "http.client",
    "aiohttp",
    "websockets",
)
MAY_GO_OUT = {
    "egress/": "the only maker of HTTP clients",
    "tools/mcp/guarded.py": "hands the MCP SDK a client whose only transport is egress",
    "tools/mcp/sse.py": "cuts events out of what egress brings, and makes no client",
    "models/litellm_adapter.py": "hands litellm a client that the operator's profile describes",
    "models/wire_http.py": "the capped client of the model adapters; only operators name its hosts",
}

RUNS_DATA = (
    "eval", "exec", "compile", "__import__", "os.system", "os.popen",
    "yaml.load", "yaml.unsafe_load", "yaml.full_load", "runpy.run_path", "runpy.run_module",
)  # fmt: skip
BEGINS_A_TASK = ("asyncio.create_task", "asyncio.ensure_future", "create_task", "ensure_future")
UNSAFE_MODULES = (
    "pickle",
    "marshal",
    "shelve",
    "dill",
    "cloudpickle",
    "jsonpickle",
    "code",
    "codeop",
    "runpy",
)
MAY_IMPORT_BY_NAME = {
    "models/litellm_adapter.py": "imports litellm on first use, by a constant name",
    "policies/masking.py": "loads modules of one library on first use, by constant names",
    "policies/hook_catalog.py": "imports the classes that the operator's config names",
    "tools/function_catalog.py": "imports functions below the operator's roots alone",
    "__init__.py": "imports the public names of the client when they are used",
    "cli/": "loads the subcommands that installed distributions register",
}


def allowed(path: str, allowances: Mapping[str, str]) -> bool:
    return any(path == entry or (entry.endswith("/") and path.startswith(entry)) for entry in allowances)


def http_clients(tree: ast.Module) -> Iterator[str]:
    for name in imported_names(tree):
        if any(name == banned or name.startswith(f"{banned}.") for banned in HTTP_CLIENTS):
            yield name


def ways_to_run_data(tree: ast.Module) -> Iterator[str]:
    for name in imported_names(tree):
        if name.split(".", 1)[0] in UNSAFE_MODULES:
            yield name
    for name, call in called_names(tree):
        if name in RUNS_DATA:
            yield name
        for keyword in call.keywords:
            if keyword.arg == "shell" and not (
                isinstance(keyword.value, ast.Constant) and keyword.value.value is False
            ):
                yield "shell="


def tasks_of_nobody(tree: ast.Module) -> Iterator[str]:
    """Tasks that are begun and kept nowhere: the loop itself holds them weakly."""
    for node in ast.walk(tree):
        call = node.value if isinstance(node, ast.Expr) else None
        while isinstance(call, ast.Call):
            if dotted(call.func) in BEGINS_A_TASK:
                yield f"{dotted(call.func)}, line {call.lineno}"
            call = call.func.value if isinstance(call.func, ast.Attribute) else None


HARMLESS_IMPORTLIB = ("importlib.resources", "importlib.metadata")
"""They read what is installed; an entry point's `load` imports, and is called where the table says."""


def imports_by_name(tree: ast.Module) -> Iterator[str]:
    for name in imported_names(tree):
        if name.split(".", 1)[0] in ("importlib", "pkgutil") and not name.startswith(HARMLESS_IMPORTLIB):
            yield name


def offences(find: Callable[[ast.Module], Iterator[str]], allowances: Mapping[str, str]) -> list[str]:
    return [
        f"{path}: {name}"
        for folder in (SERVER, CLIENT)
        for path, tree in modules(folder)
        if not allowed(path, allowances)
        for name in find(tree)
    ]


def test_only_egress_and_the_model_adapters_make_http_clients() -> None:
    assert offences(http_clients, MAY_GO_OUT) == []


def test_nothing_runs_data_as_code() -> None:
    assert offences(ways_to_run_data, {}) == []


def test_modules_are_imported_by_name_only_where_the_operator_names_them() -> None:
    assert offences(imports_by_name, MAY_IMPORT_BY_NAME) == []


def test_every_task_is_held_by_somebody() -> None:
    assert offences(tasks_of_nobody, {}) == []


def test_the_checks_find_what_they_look_for() -> None:
    bad = ast.parse(
        "import pickle, requests\nfrom urllib import request\nimport importlib\n"
        "eval('1')\nsubprocess.run('ls', shell=True)\nyaml.load(x)\nre.compile('a')\n"
    )
    assert list(http_clients(bad)) == ["requests", "urllib.request"]
    assert sorted(ways_to_run_data(bad)) == ["eval", "pickle", "shell=", "yaml.load"]
    assert list(imports_by_name(bad)) == ["importlib"]
    loose = ast.parse(
        "asyncio.create_task(x())\nasyncio.ensure_future(x()).add_done_callback(y)\n"
        "task = asyncio.create_task(x())\nawait asyncio.create_task(x())\n"
    )
    assert list(tasks_of_nobody(loose)) == ["asyncio.create_task, line 1", "asyncio.ensure_future, line 2"]


def test_every_allowance_is_used() -> None:
    paths = {path for folder in (SERVER, CLIENT) for path, _ in modules(folder)}
    entries = MAY_GO_OUT | MAY_IMPORT_BY_NAME
    assert [entry for entry in entries if not any(allowed(path, {entry: ""}) for path in paths)] == []
