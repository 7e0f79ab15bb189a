"""Runs the refund example from nothing: order service, server, one run that is watched to its end.

Owns the processes that it starts: each has a log in the data folder, a bounded wait until it listens, and a
bounded stop; all are stopped when this one ends, in whatever way it can notice. `scripts/quickstart` calls it
after making the environment. Everything it does with the server goes through the `jackline` command.
"""

import argparse
import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

EXAMPLE = Path(__file__).resolve().parent
ROOT = EXAMPLE.parent.parent
JACKLINE = Path(sys.executable).with_name("jackline")
DEFAULT_PORT = 50051
DEFAULT_MESSAGE = "My reading lamp arrived with a broken glass shade. I would like my money back, please."
DEFAULT_ORDER = "A-1001"

START_SECONDS = 60.0
STOP_SECONDS = 30.0
RUN_SECONDS = 600.0
TERMINATED = 128 + signal.SIGTERM
ADDRESS_TAKEN = 98

LEDGER = "orders-ledger.jsonl"
HOLDER = "running.json"
SCRIPT = EXAMPLE / "script.yaml"
USUAL_DELAY = "delay_ms: 150"
SLOW_DELAY = "delay_ms: 3000"
"""Long enough to pause and steer a run by hand."""

PROVIDERS: Mapping[str, str] = {
    "OPENAI_API_KEY": "openai/gpt-4o-mini",
    "ANTHROPIC_API_KEY": "anthropic/claude-haiku-4-5",
    "GEMINI_API_KEY": "gemini/gemini-flash-latest",
    "MISTRAL_API_KEY": "mistral/mistral-small-latest",
}
"""The variable that holds a provider's key, and the model that it buys; the first that is set wins."""


class Failed(Exception):
    """The quickstart can't go on. `log` is the file that says why, if there is one."""

    def __init__(self, message: str, *, log: Path | None = None) -> None:
        super().__init__(message)
        self.log = log


class AddressTaken(Failed):
    """Somebody else listens there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChoice:
    """What answers: the config file to serve with, what its references need, and how to call it in words."""

    config: Path
    variables: Mapping[str, str]
    words: str
    is_scripted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A process of ours that listens."""

    process: subprocess.Popen[bytes]
    address: str
    log: Path


def choose_model(environ: Mapping[str, str]) -> ModelChoice:
    """A provider's model if there is a key for one, else the scripted model."""
    named = environ.get("JACKLINE_QUICKSTART_MODEL", "")
    for variable, model in PROVIDERS.items():
        if environ.get(variable) and (not named or named.split("/")[0] == model.split("/")[0]):
            return ModelChoice(
                config=EXAMPLE / "jackline.live.toml",
                variables={
                    "JACKLINE_QUICKSTART_MODEL": named or model,
                    "JACKLINE_QUICKSTART_KEY": environ[variable],
                },
                words=f"{named or model} ({variable})",
                is_scripted=False,
            )
    if named:
        raise Failed(
            f"JACKLINE_QUICKSTART_MODEL is {named}, but no key for it was found. Set one of "
            f"{', '.join(PROVIDERS)} that fits the name before the slash, or unset it."
        )
    return ModelChoice(
        config=EXAMPLE / "jackline.toml",
        variables={},
        words=f"the scripted model; set {', '.join(PROVIDERS)} for a real one",
        is_scripted=True,
    )


def environment(added: Mapping[str, str]) -> dict[str, str]:
    """The environment of our processes: settings meant for another server of Jackline are left out."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("JACKLINE_")}
    no_proxy = ",".join(filter(None, (kept.get("no_proxy"), "127.0.0.1,localhost")))
    return {**kept, "no_proxy": no_proxy, "NO_PROXY": no_proxy, **added}


def free_port(wanted: int) -> int:
    """The port that is wanted if nobody has it, else 0 for any."""
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", wanted))
        except OSError:
            return 0
    return wanted


@contextmanager
def serving(name: str, command: list[str], *, log: Path, env: Mapping[str, str]) -> Generator[Service]:
    """A process that says `listening on HOST:PORT`, for as long as the block lasts. Raises Failed."""
    with log.open("ab") as output:
        begin = output.tell()
        process = subprocess.Popen(  # noqa: S603 - our own programs
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(env),
            start_new_session=True,  # Ctrl-C is ours: we stop it in order
        )
    try:
        yield Service(process=process, address=listening_address(name, process, log, begin), log=log)
    finally:
        stop(name, process)


def listening_address(name: str, process: subprocess.Popen[bytes], log: Path, begin: int) -> str:
    """Where the process listens, as soon as its log says so after `begin`. Raises Failed."""
    give_up = time.monotonic() + START_SECONDS
    while time.monotonic() < give_up:
        ended = process.poll()
        for line in log.read_bytes()[begin:].decode(errors="replace").splitlines():
            if line.startswith("listening on "):
                return line.removeprefix("listening on ").split()[0]
        if ended == ADDRESS_TAKEN:
            raise AddressTaken(f"The {name} found its address taken.", log=log)
        if ended is not None:
            raise Failed(f"The {name} ended with code {ended} before it listened.", log=log)
        time.sleep(0.05)
    raise Failed(f"The {name} did not listen within {START_SECONDS:.0f} s.", log=log)


def stop(name: str, process: subprocess.Popen[bytes]) -> None:
    """End a process of ours: asked first, killed when it takes too long."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        print(f"The {name} did not stop within {STOP_SECONDS:.0f} s and is killed.", file=sys.stderr)
        process.kill()
        process.wait()


def start_run(options: argparse.Namespace, server: Service, env: Mapping[str, str]) -> str:
    """Start the run. Returns its id. Raises Failed."""
    given = {"message": options.message, "order_id": options.order, "shop": options.shop}
    started = subprocess.run(  # noqa: S603 - our own program
        [JACKLINE, "run", "refunds", "--detach", "--address", server.address, "--input", json.dumps(given)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        env=dict(env),
        timeout=START_SECONDS,
        check=False,
    )
    if started.returncode != 0:
        raise Failed("The run could not be started.", log=server.log)
    return started.stdout.strip()


def watch_run(run_id: str, server: Service, env: Mapping[str, str]) -> int:
    """Show the run until it ends. Returns the exit code that says how."""
    watching = subprocess.run(  # noqa: S603 - our own program
        [JACKLINE, "watch", run_id, "--address", server.address],
        stdin=subprocess.DEVNULL,
        env=dict(env),
        timeout=RUN_SECONDS,
        check=False,
    )
    return watching.returncode


def ledger_lines(ledger: Path) -> list[str]:
    """What the order service has noted so far, also at earlier times."""
    return ledger.read_text(encoding="utf-8").splitlines() if ledger.exists() else []


def show_ledger(lines: list[str]) -> None:
    """Show what the order service was asked, from its own ledger."""
    print("\nWhat the order service saw:" if lines else "\nThe order service was asked nothing.")
    for line in lines:
        entry = json.loads(line)
        result = entry["response"].get("refund") or entry["response"].get("ticket") or ""
        print(f"  {entry['method']:4} {entry['path']:32} {entry['status']} {result}".rstrip())


def show_next(run_id: str, server: Service, *, slow: bool) -> None:
    """Show what to try while the server is up: each block works as it is pasted."""
    default = server.address == f"127.0.0.1:{DEFAULT_PORT}"
    where = "" if default else f" --address {server.address}"
    jackline = os.path.relpath(JACKLINE)
    ask = json.dumps({"message": "Please refund my espresso machine.", "order_id": "A-1003", "shop": "eu"})
    hint = "" if slow else "   # start with scripts/quickstart --slow to have the time"
    print(
        f"""
The server is up at {server.address}; its log is {os.path.relpath(server.log)}. Try, in another terminal:

  {jackline} get {run_id}{where}
  {jackline} watch {run_id}{where}
  {jackline} run refunds{where} --input '{ask}'

Pause a run, give it guidance, let it go on:{hint}

  RUN=$({jackline} run refunds{where} --detach --input '{ask}')
  {jackline} pause "$RUN"{where}
  {jackline} steer "$RUN" "Be generous." --wait accepted{where}
  {jackline} resume "$RUN"{where}
  {jackline} watch "$RUN"{where}

The same over plain gRPC:

  grpcurl -plaintext -H "authorization: Bearer $({jackline} token print{where})" \\
    -d '{{"run_id": "{run_id}"}}' {server.address} jackline.v1.RunService/GetRun

docs/operations.md has more. Ctrl-C stops it (kill -TERM {os.getpid()} where it runs in the background);
everything is still there when you start it again.
""",
        flush=True,
    )


def wait_for_end(services: list[Service]) -> None:
    """Wait until Ctrl-C. Raises Failed if one of our processes ends by itself."""
    while True:
        for service in services:
            if service.process.poll() is not None:
                raise Failed("A process ended by itself.", log=service.log)
        time.sleep(0.2)


@contextmanager
def serving_orders(data: Path) -> Generator[Service]:
    """The order service, for as long as the block lasts. Raises Failed."""
    command = [sys.executable, str(EXAMPLE / "order_service.py"), "--ledger", str(data / LEDGER)]
    with serving("order service", command, log=data / "orders.log", env=environment({})) as orders:
        yield orders


@contextmanager
def serving_runs(data: Path, model: ModelChoice, env: Mapping[str, str], port: int) -> Generator[Service]:
    """The server, for as long as the block lasts. Raises Failed."""
    command = [str(JACKLINE), "serve", "--config", str(model.config)]
    command += ["--workflows", str(EXAMPLE / "workflows")]
    command += ["--data", str(data / "server"), "--listen"]

    def at(port: int) -> AbstractContextManager[Service]:
        return serving("server", [*command, f"127.0.0.1:{port}"], log=data / "server.log", env=env)

    with ExitStack() as stack:
        try:
            server = stack.enter_context(at(port))
        except AddressTaken:  # by somebody who was a moment faster
            server = stack.enter_context(at(0))
        yield server


@contextmanager
def holding(data: Path) -> Generator[Callable[[str], None]]:
    """The data folder, for this quickstart alone; the function given notes where it serves. Raises Failed."""
    with (data / HOLDER).open("a+", encoding="utf-8") as holder:
        try:
            fcntl.flock(holder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder.seek(0)
            raise Failed(
                f"A quickstart is already running{holder.read()}. Use it, or stop it with Ctrl-C there "
                "(kill -TERM where it runs in the background); --once runs beside it."
            ) from None

        def note(address: str) -> None:
            holder.truncate(0)
            holder.write(f" at {address} (process {os.getpid()})")
            holder.flush()

        holder.truncate(0)
        yield note
        holder.truncate(0)


def slow_script(data: Path) -> Path:
    """The script with long turns, in the data folder."""
    slow = data / "slow_script.yaml"
    slow.write_text(SCRIPT.read_text(encoding="utf-8").replace(USUAL_DELAY, SLOW_DELAY), encoding="utf-8")
    return slow


def carry_out(options: argparse.Namespace, data: Path) -> int:
    """The whole thing in one data folder. Returns the run's exit code. Raises Failed."""
    model = choose_model(os.environ)
    print(f"Model: {model.words}.")
    with holding(data) as note:
        if options.fresh:
            forget(data)
        return serve_and_run(options, data, model, note)


def forget(data: Path) -> None:
    """Remove what earlier times left in the data folder, and nothing else that may be there."""
    shutil.rmtree(data / "server", ignore_errors=True)
    for name in (LEDGER, "orders.log", "server.log", "slow_script.yaml"):
        (data / name).unlink(missing_ok=True)


def serve_and_run(
    options: argparse.Namespace, data: Path, model: ModelChoice, note: Callable[[str], None]
) -> int:
    """Serve, run, show; then keep serving unless it is for once. Returns the run's exit code."""
    with serving_orders(data) as orders:
        url = f"http://{orders.address}"
        added = {"ORDERS_URL": url, "HELPDESK_URL": f"{url}/helpdesk", **model.variables}
        if options.slow and model.is_scripted:
            added["JACKLINE_MODELS__FAST__SCRIPT"] = str(slow_script(data))
        if options.once:
            added["JACKLINE_STATE_DIR"] = str(data / "state")  # the token goes with the rest
        env = environment(added)
        with serving_runs(data, model, env, 0 if options.once else free_port(DEFAULT_PORT)) as server:
            note(server.address)
            print(f"Order {options.order}: {options.message}\n", flush=True)
            before = len(ledger_lines(data / LEDGER))
            run_id = start_run(options, server, env)
            code = watch_run(run_id, server, env)
            show_ledger(ledger_lines(data / LEDGER)[before:])
            if not options.once:
                show_next(run_id, server, slow=options.slow or not model.is_scripted)
                wait_for_end([orders, server])
            return code


def show_log(log: Path) -> None:
    """Show the end of a log."""
    if log.exists():
        print(f"\nThe end of {log}:", file=sys.stderr)
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines()[-20:]:
            print(f"  {line}", file=sys.stderr)


def parse(arguments: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="scripts/quickstart", description="Run the refund example.")
    parser.add_argument(
        "--once", action="store_true", help="stop everything after the run; exit with its code"
    )
    parser.add_argument("--message", default=DEFAULT_MESSAGE, help="what the customer writes")
    parser.add_argument("--order", default=DEFAULT_ORDER, help="the order it is about: A-1001 to A-1004")
    parser.add_argument(
        "--shop", default="eu", choices=("eu", "us"), help="the shop; us has U-2001 and U-2002"
    )
    parser.add_argument(
        "--slow", action="store_true", help="let the scripted model take 3 s a turn: time to pause and steer"
    )
    parser.add_argument(
        "--data", type=Path, metavar="FOLDER", help="keep runs and logs there; default: .jackline/quickstart"
    )
    parser.add_argument("--fresh", action="store_true", help="forget the runs and refunds of earlier times")
    options = parser.parse_args(arguments)
    if options.once and options.data is not None:
        parser.error("--once keeps nothing; leave --data out")
    return options


def terminate(_signal: int, _frame: FrameType | None) -> None:
    """Turn SIGTERM into an exit that stops what was started."""
    raise SystemExit(TERMINATED)


def main() -> int:
    """The command. Returns the run's exit code, 1 if there was no run."""
    options = parse(sys.argv[1:])
    signal.signal(signal.SIGTERM, terminate)
    data: Path = options.data or ROOT / ".jackline" / "quickstart"
    if options.once:
        data = Path(tempfile.mkdtemp(prefix="jackline-quickstart-"))
    data.mkdir(parents=True, exist_ok=True)
    code = 1
    try:
        code = carry_out(options, data)
    except KeyboardInterrupt:
        print("\nStopped.")
        code = 0 if not options.once else 130
    except (Failed, subprocess.TimeoutExpired) as error:
        print(f"\nquickstart: {error}", file=sys.stderr)
        log = error.log if isinstance(error, Failed) else data / "server.log"
        if log is not None:
            show_log(log)
    if options.once and code == 0:
        shutil.rmtree(data, ignore_errors=True)
    elif options.once:
        print(f"\nLogs and data are kept in {data}.", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
