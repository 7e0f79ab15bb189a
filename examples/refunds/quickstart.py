"""Runs the refund example from nothing: order service, server, one run that is watched to its end.

Owns the processes that it starts: each has a log in the data folder, a bounded wait until it listens, and a
bounded stop; all are stopped when this one ends, in whatever way it can notice. `scripts/quickstart` calls it
after making the environment. Everything it does with the server goes through the `jackline` command.
"""

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
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

LEDGER = "orders-ledger.jsonl"

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChoice:
    """What answers: the config file to serve with, what its references need, and how to call it in words."""

    config: Path
    variables: Mapping[str, str]
    words: str


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
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - our own programs
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(env),
            start_new_session=True,  # Ctrl-C is ours: we stop it in order
        )
    try:
        yield Service(process=process, address=listening_address(name, process, log), log=log)
    finally:
        stop(name, process)


def listening_address(name: str, process: subprocess.Popen[bytes], log: Path) -> str:
    """Where the process listens, as soon as its log says so. Raises Failed."""
    give_up = time.monotonic() + START_SECONDS
    while time.monotonic() < give_up:
        ended = process.poll()
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("listening on "):
                return line.removeprefix("listening on ").split()[0]
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


def show_ledger(ledger: Path) -> None:
    """Show what the order service was asked in this run, from its own ledger."""
    print("\nWhat the order service saw:")
    for line in ledger.read_text(encoding="utf-8").splitlines()[-8:]:
        entry = json.loads(line)
        result = entry["response"].get("refund") or entry["response"].get("ticket") or ""
        print(f"  {entry['method']:4} {entry['path']:32} {entry['status']} {result}".rstrip())


def show_next(run_id: str, server: Service) -> None:
    """Show what to try while the server is up."""
    default = server.address == f"127.0.0.1:{DEFAULT_PORT}"
    where = "" if default else f" --address {server.address}"
    command = os.path.relpath(JACKLINE)
    ask = json.dumps({"message": "Please refund my espresso machine.", "order_id": "A-1003", "shop": "eu"})
    print(
        f"""
The server is up at {server.address}; its log is {os.path.relpath(server.log)}. Try, in another terminal:

  {command} get {run_id}{where}
  {command} watch {run_id}{where}
  {command} run refunds{where} --input '{ask}'
  {command} steer RUN "Be generous."{where}        (also: pause, resume, abort, answer)
  grpcurl -plaintext -H "authorization: Bearer $({command} token print{where})" \\
    -d '{{"run_id": "{run_id}"}}' {server.address} jackline.v1.RunService/GetRun

docs/operations.md has more. Ctrl-C stops it; everything is still there when you start it again.
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
    command = [str(JACKLINE), "serve", "--config", str(model.config), "--workflows", str(EXAMPLE)]
    command += ["--data", str(data / "server"), "--listen", f"127.0.0.1:{port}"]
    with serving("server", command, log=data / "server.log", env=env) as server:
        yield server


def carry_out(options: argparse.Namespace, data: Path) -> int:
    """The whole thing in one data folder. Returns the run's exit code. Raises Failed."""
    model = choose_model(os.environ)
    print(f"Model: {model.words}.")
    with serving_orders(data) as orders:
        url = f"http://{orders.address}"
        added = {"ORDERS_URL": url, "HELPDESK_URL": f"{url}/helpdesk", **model.variables}
        if options.once:
            added["JACKLINE_STATE_DIR"] = str(data / "state")  # the token goes with the rest
        env = environment(added)
        with serving_runs(data, model, env, 0 if options.once else free_port(DEFAULT_PORT)) as server:
            print(f"Order {options.order}: {options.message}\n", flush=True)
            run_id = start_run(options, server, env)
            code = watch_run(run_id, server, env)
            show_ledger(data / LEDGER)
            if not options.once:
                show_next(run_id, server)
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
    parser.add_argument("--fresh", action="store_true", help="forget the runs and refunds of earlier times")
    return parser.parse_args(arguments)


def terminate(_signal: int, _frame: FrameType | None) -> None:
    """Turn SIGTERM into an exit that stops what was started."""
    raise SystemExit(TERMINATED)


def main() -> int:
    """The command. Returns the run's exit code, 1 if there was no run."""
    options = parse(sys.argv[1:])
    signal.signal(signal.SIGTERM, terminate)
    data = ROOT / ".jackline" / "quickstart"
    if options.once:
        data = Path(tempfile.mkdtemp(prefix="jackline-quickstart-"))
    elif options.fresh:
        shutil.rmtree(data, ignore_errors=True)
    data.mkdir(parents=True, exist_ok=True)
    code = 1
    try:
        code = carry_out(options, data)
    except KeyboardInterrupt:
        print("\nStopped.")
        code = 0 if not options.once else 130
    except (Failed, subprocess.TimeoutExpired) as error:
        print(f"\nquickstart: {error}", file=sys.stderr)
        show_log(error.log if isinstance(error, Failed) and error.log else data / "server.log")
    if options.once and code == 0:
        shutil.rmtree(data, ignore_errors=True)
    elif options.once:
        print(f"\nLogs and data are kept in {data}.", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
