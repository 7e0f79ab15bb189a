"""Runs pytest over and over from one process that has imported what every run of it needs.

Owns that process: it forks for each run, so that nothing of one reaches the next. Imports are most of what a
run of one test takes, so those of the packages in the folder that it is started in, and of what they import,
are made once, before any fault is there. A run with a changed file gets the change in one of two ways:

- swapped: in the fork, each function whose code is another now gets that code. Only a file in which nothing
  but bodies of functions changed can be had like that, and a function that was called by an import has done
  its work already, so a run that is green like that proves nothing;
- afresh: in the fork, all of the packages' modules are forgotten, and imported again as the file now is.

Speaks lines of JSON: `{"arguments", "within_s", "changed", "was"}` comes in, with the path of a file that has
changed and its text before, both null if none has, and `"swapped"`, true to have it swapped. `{"code",
"output"}` goes out; `code` is null for a run that had to be ended, and `can't swap` for one that was not
begun, as more than functions changed. Started as a script; the folder it is in is not on its path.
"""

import gc
import importlib
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType

_NEEDED = (
    "pytest",
    "hypothesis",
    "hypothesis.strategies",
    "pytest_asyncio.plugin",
    "pytest_timeout",
    "xdist.plugin",
    "anyio.pytest_plugin",
    "jsonschema",
    "yaml",
)
_TREES = ("server", "client/python")
"""Roots of the tree's packages. Its tests are not imported before their time: some are programs."""
_KEPT = ("jackline",)
"""Generated: no fault is in it, and what it registers can't be registered twice."""
_FUNCTION = 0x1  # CO_OPTIMIZED: a function's code; a module's and a class's have it not
_RUNS_AT_ONCE = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
_LOOK_S = 0.01
CANT_SWAP = "can't swap"
PROFILE = "fault"

_Place = tuple[str, str, int]


def main() -> None:
    """Serve until there are no more lines."""
    sys.path.insert(0, str(Path.cwd()))
    for name in (*_NEEDED, *_modules()):
        try:
            importlib.import_module(name)
        except ImportError:  # of an extra that is not there; a test that needs it says so
            continue
    _spare_shrinking()
    functions = _functions()
    gc.freeze()
    for line in sys.stdin:
        asked = json.loads(line)
        sys.stdout.write(json.dumps(_run(functions=functions, **asked)) + "\n")
        sys.stdout.flush()


def _spare_shrinking() -> None:
    """Have a profile of properties for runs with a fault: that there is an example is enough."""
    from hypothesis import HealthCheck, Phase, settings  # noqa: PLC0415 - imported by now, before it all

    settings.register_profile(
        PROFILE,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        phases=(Phase.explicit, Phase.generate),
    )


def _modules() -> Iterator[str]:
    """The modules of the tree that a test may need."""
    for root in map(Path, _TREES):
        for path in sorted(root.rglob("*.py")):
            if path.stem != "__main__":
                parts = path.relative_to(root).with_suffix("").parts
                yield ".".join(parts[:-1] if path.stem == "__init__" else parts)


def _run(
    *,
    functions: dict[_Place, list[FunctionType]],
    arguments: list[str],
    within_s: float,
    changed: str | None,
    was: str | None,
    swapped: bool,
) -> dict[str, object]:
    pairs: list[tuple[CodeType, CodeType]] = []
    if changed is not None and was is not None and swapped:
        found = swaps(was, Path(changed).read_text(encoding="utf-8"), changed)
        if found is None:
            return {"code": CANT_SWAP, "output": ""}
        pairs = found
    with tempfile.TemporaryFile() as output:
        child = os.fork()
        if child == 0:
            try:
                if changed is not None and not swapped:
                    _forget()
                for old, new in pairs:
                    for function in functions.get(_place(old), []):
                        function.__code__ = new
            except BaseException:  # noqa: BLE001 - a process ends here
                traceback.print_exc()
                os._exit(70)
            _become_pytest(arguments, output.fileno())
        code = _end_of(child, within_s)
        output.seek(0)
        return {"code": code, "output": output.read().decode(errors="replace")}


def swaps(was: str, now: str, path: str) -> list[tuple[CodeType, CodeType]] | None:
    """The code of each function that is another now, before and after. None: more than functions changed."""
    try:
        return list(_differing(compile(was, path, "exec"), compile(now, path, "exec")))
    except (SyntaxError, _OtherwiseChanged):
        return None


class _OtherwiseChanged(Exception):
    """What an import does is another, or what a function takes from around it."""


def _differing(was: CodeType, now: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    if _is_alike(was, now):
        return
    if was.co_flags & _FUNCTION and was.co_name not in _RUNS_AT_ONCE:
        if was.co_freevars != now.co_freevars:
            raise _OtherwiseChanged
        yield was, now
        return
    if not _is_alike(was, now, inside=False) or was.co_name in _RUNS_AT_ONCE:
        raise _OtherwiseChanged
    for old, new in zip(was.co_consts, now.co_consts, strict=True):
        if isinstance(old, CodeType):
            yield from _differing(old, new)


def _is_alike(was: CodeType, now: CodeType, *, inside: bool = True) -> bool:
    """True if they do the same, wherever they stand; without `inside`, code in them may differ."""
    alike = _told(was) == _told(now) and len(was.co_consts) == len(now.co_consts)
    return alike and all(
        isinstance(new, CodeType) and (not inside or _is_alike(old, new))
        if isinstance(old, CodeType)
        else type(old) is type(new) and repr(old) == repr(new)
        for old, new in zip(was.co_consts, now.co_consts, strict=True)
    )


def _told(code: CodeType) -> tuple[object, ...]:
    names = (code.co_name, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    takes = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    return (*names, *takes, code.co_code, code.co_exceptiontable)


def _place(code: CodeType) -> _Place:
    return str(Path(code.co_filename).resolve()), code.co_qualname, code.co_firstlineno


def _functions() -> dict[_Place, list[FunctionType]]:
    """The functions of the tree that there are, by where their code stands."""
    functions: dict[_Place, list[FunctionType]] = {}
    here = str(Path.cwd())
    for one in gc.get_objects():
        if isinstance(one, FunctionType) and one.__code__.co_filename.startswith(here):
            functions.setdefault(_place(one.__code__), []).append(one)
    return functions


def _forget() -> None:
    """Have what is of the tree imported again, but what is generated."""
    here = str(Path.cwd())
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) or ""
        if file.startswith(here) and name.split(".")[0] not in _KEPT:
            del sys.modules[name]


def _become_pytest(arguments: list[str], output: int) -> None:
    """Never returns. An error that pytest lets through is a failure, as in a process of its own."""
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    code = 1
    try:
        import pytest  # noqa: PLC0415 - imported before the fork, or else here

        code = int(pytest.main(arguments))
    except BaseException:  # noqa: BLE001 - a process ends here
        traceback.print_exc(file=sys.stdout)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _end_of(child: int, within_s: float) -> int | None:
    """Its exit code; None if it was ended, with all that it had started, since its time was over."""
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(_LOOK_S)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


if __name__ == "__main__":
    main()
