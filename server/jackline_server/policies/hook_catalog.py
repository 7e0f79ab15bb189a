"""The hooks that the operator declared: loaded once, each with its one instance.

Owns which class a name leads to and what it can be asked. Does not ask it (`hooks`). Loading runs the
operator's code. A workflow names hooks and nothing else: no class and no module comes from it.
"""

import importlib
import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import entry_points
from typing import Any

from jackline_server.core.frozen import frozen
from jackline_server.core.gate_plans import HOOK_POINTS, Point
from jackline_server.runtime.ports.gates import HookDeclaration

ENTRY_POINTS = "jackline.hooks"
"""The group of entry points that hook classes are found in."""


@frozen
class FoundHook:
    """A hook that may be asked: its methods by point."""

    declaration: HookDeclaration
    instance: object
    methods: Mapping[Point, Callable[..., object]]


class HookProblem(Exception):
    """A hook can't be used. The message is for the operator and the author of a workflow."""


class HookCatalog:
    """Finds hooks by name, each once: what was found stays as it was then. Safe to share between threads."""

    def __init__(self, declarations: Sequence[HookDeclaration]) -> None:
        self._declared = {one.name: one for one in declarations}
        self._found: dict[str, FoundHook] = {}
        self._loading = threading.Lock()

    @property
    def names(self) -> tuple[str, ...]:
        """The hooks that were declared."""
        return tuple(self._declared)

    @property
    def loaded(self) -> tuple[FoundHook, ...]:
        """Those that were found."""
        return tuple(self._found.values())

    def known(self, name: str) -> FoundHook | None:
        """The hook of that name if it was found before; imports nothing."""
        return self._found.get(name)

    def find(self, name: str) -> FoundHook:
        """The hook of that name; may import its module. Raises HookProblem."""
        with self._loading:
            found = self._found.get(name)
            if found is None:
                found = self._found[name] = self._load(name)
            return found

    def _load(self, name: str) -> FoundHook:
        declaration = self._declared.get(name)
        if declaration is None:
            raise HookProblem(f"there is no hook {name!r} in the server's config")
        made = _made(_class(declaration), declaration)
        methods = {point: getattr(made, point.value) for point in HOOK_POINTS if hasattr(made, point.value)}
        if not methods:
            names = ", ".join(point.value for point in HOOK_POINTS)
            raise HookProblem(f"the hook {name!r} has none of the methods {names}")
        for point, method in methods.items():
            _check(name, point, method)
        return FoundHook(declaration=declaration, instance=made, methods=methods)


def _class(declaration: HookDeclaration) -> type[Any]:
    found = entry_points(group=ENTRY_POINTS, name=declaration.entry_point) if declaration.entry_point else ()
    if declaration.entry_point and not found:
        raise HookProblem(f"no installed package has an entry point {declaration.entry_point!r}")
    module, _, name = declaration.class_path.partition(":")
    try:
        value: object = (
            next(iter(found)).load() if found else getattr(importlib.import_module(module), name, None)
        )
    except BaseException as error:  # a module may raise anything, and SystemExit must not end the server
        raise HookProblem(f"the hook {declaration.name!r} can't be loaded: {_first(error)}") from error
    if not inspect.isclass(value):
        raise HookProblem(f"the hook {declaration.name!r} is no class")
    return value


def _made(kind: type[Any], declaration: HookDeclaration) -> object:
    try:
        return kind(**declaration.options)
    except BaseException as error:  # as above
        raise HookProblem(f"the hook {declaration.name!r} can't be made: {_first(error)}") from error


def _check(name: str, point: Point, method: object) -> None:
    if not callable(method):
        raise HookProblem(f"{point.value} of the hook {name!r} is no method")
    try:
        inspect.signature(method).bind(None)
    except (TypeError, ValueError):
        message = f"{point.value} of the hook {name!r} has to take one argument, the event"
        raise HookProblem(message) from None


def _first(error: BaseException) -> str:
    """What an exception says, in one line."""
    try:
        text = (str(error).splitlines() or [""])[0][:200]
    except Exception:  # noqa: BLE001 - an exception may raise anything when it is asked for its text
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
