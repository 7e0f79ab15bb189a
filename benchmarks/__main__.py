"""The command line of the measurements; `scripts/bench` calls it.

Owns the flags, the folders that measurements work in, and the exit code: 0 if every target is met, 1 if one
is missed, 3 if what was looked at was not as it has to be, 2 for a wrong word.
"""

import argparse
import dataclasses
import shutil
import sys
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import Any, cast, get_type_hints

import uvloop

from benchmarks import comparing
from benchmarks.catalog import BENCHMARKS, Benchmark
from benchmarks.machine import machine, versions
from benchmarks.outside import ProgramFailed
from benchmarks.results import Result, as_json, as_table
from benchmarks.served import ROOT, ServerTrouble

EXIT_MISSED, EXIT_USAGE, EXIT_UNVERIFIED = 1, 2, 3


class WrongWord(Exception):
    """Something on the command line that there is not."""


def main(words: Sequence[str] | None = None) -> int:
    """Measure what the words name; the exit code."""
    given = _parser().parse_args(words)
    try:
        if given.list:
            return _list()
        if given.lock_peers:
            return _lock_peers()
        changes = [*given.set, *([f"profile={Path(given.profile).resolve()}"] if given.profile else [])]
        names = given.names or (["loop"] if given.peers else list(BENCHMARKS))
        planned = [
            (found := _found(name), parameters_of(found, tiny=given.tiny, changes=changes)) for name in names
        ]
        if given.peers:
            return _peers(names, planned[0][1], json=given.json)
        return max(
            _one(benchmark, parameters, json=given.json, judged=not given.tiny)
            for benchmark, parameters in planned
        )
    except WrongWord as error:
        sys.stderr.write(f"scripts/bench: {error}\n")
        return EXIT_USAGE
    except (ServerTrouble, ProgramFailed, comparing.LockTrouble) as error:
        sys.stderr.write(f"scripts/bench: {error}\n")
        return EXIT_UNVERIFIED


def parameters_of(benchmark: Benchmark, *, tiny: bool, changes: Sequence[str]) -> Any:  # noqa: ANN401 - each has its own
    """The parameters with `KEY=VALUE` changes. Raises WrongWord."""
    parameters = benchmark.tiny if tiny else benchmark.full
    kinds: Mapping[str, object] = get_type_hints(cast("type[object]", type(parameters)))
    for change in changes:
        key, _, value = change.partition("=")
        if key not in kinds:
            raise WrongWord(f"--set {change}: there is no {key!r}; known: {', '.join(kinds)}")
        parameters = dataclasses.replace(parameters, **{key: _parsed(change, value, kinds[key])})
    return parameters


def _parsed(change: str, value: str, kind: object) -> int | Path:
    if kind is not int:
        return Path(value)
    if not value.isdecimal() or int(value) < 1:
        raise WrongWord(f"--set {change}: {value!r} is no whole number from 1")
    return int(value)


def _parser() -> argparse.ArgumentParser:
    words = argparse.ArgumentParser(
        prog="scripts/bench",
        description="Measure a real server process, each figure beside its floor. See docs/benchmarks.md.",
        epilog="Exit code: 0 every target met (--tiny has none), 1 one missed, 2 a wrong word, "
        "3 something was not verified.",
    )
    flag = words.add_argument
    flag("names", nargs="*", metavar="NAME", help="which; all of them without a name")
    flag("--json", action="store_true", help="one line of JSON each, in place of tables")
    flag("--list", action="store_true", help="name them and end")
    flag("--tiny", action="store_true", help="as small as can be: shows that it works, measures nothing")
    flag(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="change a parameter; may be repeated"
    )
    flag("--profile", metavar="FILE", help="loop: write what cProfile sees in the server to FILE")
    flag(
        "--peers", action="store_true", help="other frameworks beside the loop, in environments of their own"
    )
    flag("--lock-peers", action="store_true", help="make the peers' lock files anew and end")
    return words


def _found(name: str) -> Benchmark:
    if name not in BENCHMARKS:
        raise WrongWord(f"there is no benchmark {name!r}; known: {', '.join(BENCHMARKS)}")
    return BENCHMARKS[name]


def _list() -> int:
    for name, benchmark in BENCHMARKS.items():
        print(f"{name:<12}{benchmark.tells}")
    return 0


def _lock_peers() -> int:
    for peer in comparing.PEERS:
        comparing.make_lock(peer)
        print(f"made benchmarks/peers/{peer.lock.name}")
    return 0


def _one(benchmark: Benchmark, parameters: object, *, json: bool, judged: bool) -> int:
    async def measured(folder: Path) -> Result:
        result = await benchmark.measure(parameters, folder)
        return result if judged else result.unjudged()

    with _workplace() as folder:
        return _show(uvloop.run(measured(folder)), json=json)


def _peers(names: Sequence[str], parameters: Any, *, json: bool) -> int:  # noqa: ANN401 - those of the loop
    if names != ["loop"]:
        raise WrongWord("--peers measures the loop alone; leave the names out")

    async def compared(folder: Path) -> int:
        async with aclosing(comparing.compare(parameters, folder)) as results:
            return max([_show(result, json=json) async for result in results])

    with _workplace() as folder:
        return uvloop.run(compared(folder))


def _show(result: Result, *, json: bool) -> int:
    """Print a result; the exit code that it is worth."""
    print(
        as_json(result, {"versions": versions(), "machine": machine()}) if json else as_table(result),
        flush=True,
    )
    if not result.verified:
        return EXIT_UNVERIFIED
    return 0 if result.ok else EXIT_MISSED


@contextmanager
def _workplace() -> Generator[Path]:
    """A folder on the disk of the checkout, removed afterwards: a store in memory would cost no fsync."""
    parent = ROOT / ".cache" / "bench"
    parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
