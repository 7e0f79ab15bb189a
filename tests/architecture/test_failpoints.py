"""The registry of failpoints and the places in the source are the same set."""

import ast

from jackline_server import failpoints
from tests.architecture.source_tree import SERVER, called_names, modules


def test_every_failpoint_of_the_registry_is_in_the_source_and_the_other_way_round() -> None:
    found: set[str] = set()
    for path, tree in modules(SERVER):
        if path == "failpoints.py":
            continue
        for name, call in called_names(tree):
            if name.rsplit(".", 1)[-1] in ("hit", "hit_async") and "failpoints" in ast.unparse(tree):
                assert isinstance(call.args[0], ast.Constant), (
                    f"{path}:{call.lineno}: name the failpoint literally"
                )
                found.add(str(call.args[0].value))
    assert found == set(failpoints.NAMES)
