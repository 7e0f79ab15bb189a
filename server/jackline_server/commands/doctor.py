"""`jackline doctor`: whether a server could serve with this config, and what to do if it could not.

Owns the report. What is looked at is in `checks`. It changes nothing on disk.
"""

import asyncio
import logging
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from jackline_server.commands.given import (
    ConfigFile,
    DataFolder,
    InsecureBind,
    ListenAddress,
    Output,
    OutputForm,
    Volatile,
    WorkflowsFolder,
    flags_given,
    printable,
    say,
    say_json,
    span_s,
)
from jackline_server.config import Config, ConfigError, load_config
from jackline_server.exit_codes import EXIT_FOUND

if TYPE_CHECKING:
    from jackline_server.commands.checks.findings import Check, Found, Report

_DEFAULT_LIMIT = "20s"
_WIDTH = 9


def doctor(  # noqa: PLR0913 - one parameter a flag
    *,
    config: ConfigFile = None,
    workflows: WorkflowsFolder = None,
    data: DataFolder = None,
    listen: ListenAddress = None,
    insecure_bind: InsecureBind = False,
    volatile: Volatile = False,
    timeout: Annotated[str, typer.Option(help="The longest that one check may take.")] = _DEFAULT_LIMIT,
    output: OutputForm = Output.TEXT,
) -> None:
    """Check whether a server could serve: machine, data, address, models, connections, hooks, workflows.

    Starts the MCP servers of the config, loads its hooks, asks its policy services about a read of the tool
    `jackline_doctor`, and asks other servers for no more than a sign of life. Changes nothing on disk. The
    exit code is 1 if there is a problem.
    """
    limit_s = span_s(timeout)
    flags = flags_given(
        {
            "workflows": workflows,
            "data": data,
            "listen": listen,
            "insecure_bind": insecure_bind,
            "volatile": volatile,
        }
    )
    loaded: Config | None = None
    wrong: tuple[str, ...] = ()
    try:
        loaded = load_config(file=config, environ=os.environ, flags=flags)
    except ConfigError as error:
        wrong = tuple(str(problem) for problem in error.problems)
    logging.getLogger().addHandler(logging.NullHandler())  # what is worth saying stands in the report
    report = asyncio.run(_examined(loaded, wrong, limit_s=limit_s, output=output))
    raise typer.Exit(_code(report))


async def _examined(
    config: Config | None, wrong: tuple[str, ...], *, limit_s: float, output: Output
) -> "Report":
    from jackline_server.commands.checks.findings import looked_at  # noqa: PLC0415 - help needs none of it
    from jackline_server.commands.checks.gates import gate_checks  # noqa: PLC0415 - see above
    from jackline_server.commands.checks.machine import machine_checks, place_checks  # noqa: PLC0415 - see above
    from jackline_server.commands.checks.outside import outside_checks  # noqa: PLC0415 - see above
    from jackline_server.commands.checks.webhooks import webhook_checks  # noqa: PLC0415 - see above
    from jackline_server.commands.checks.workflows import workflow_checks  # noqa: PLC0415 - see above

    before = [_config_check(config, wrong), *machine_checks()]
    if config is None:
        report = await looked_at(before, limit_s=limit_s, on_done=_progress(len(before)))
    else:
        from jackline_server.bootstrap import workbench  # noqa: PLC0415 - see above

        async with workbench(config) as bench:
            checks = [
                *before,
                *place_checks(config),
                *outside_checks(config, bench, limit_s=limit_s),
                *gate_checks(config, bench, limit_s=limit_s),
                *webhook_checks(config, bench, limit_s=limit_s),
                *await asyncio.to_thread(workflow_checks, config, bench),
            ]
            report = await looked_at(checks, limit_s=limit_s, on_done=_progress(len(checks)))
            report = _veiled(report, config)
    _print(report, output)
    if report.ran_out:
        # A thread of a check that was given up may never end, and the interpreter would wait for it.
        sys.stdout.flush()
        os._exit(_code(report))
    return report


def _veiled(report: "Report", config: Config) -> "Report":
    """The report without the values that `config show` masks: they stand in paths and in what servers say."""
    from jackline_server.config.masking import Veil  # noqa: PLC0415 - help needs none of it
    from jackline_server.core.frozen import change  # noqa: PLC0415 - see above

    veil = Veil(secret.reveal() for secret in config.all_hidden)
    found = tuple(
        change(one, subject=veil.over(one.subject), what=veil.over(one.what), advice=veil.over(one.advice))
        for one in report.found
    )
    return change(report, found=found)


def _config_check(config: Config | None, wrong: tuple[str, ...]) -> "Check":
    from jackline_server.commands.checks.findings import Check, ok, problem, warning  # noqa: PLC0415 - see above

    async def look() -> "list[Found]":
        await asyncio.sleep(0)
        if config is None:
            advice = "correct it; nothing that depends on the config was checked"
            return [problem("config", what, advice) for what in wrong]
        notices = [warning("config", notice) for notice in config.notices]
        return [ok("config", f"{config.file or 'no file'}: no mistakes"), *notices]

    return Check(subject="config", look=look)


def _progress(total: int) -> Callable[[int], None]:
    """Tells a person how far it is; says nothing where nobody watches."""
    if not sys.stderr.isatty():
        return lambda _: None

    def tell(done: int) -> None:
        sys.stderr.write(f"\r{done} of {total} checks done" if done < total else "\r\x1b[K")
        sys.stderr.flush()

    return tell


def _code(report: "Report") -> int:
    from jackline_server.commands.checks.findings import Verdict  # noqa: PLC0415 - help needs none of it

    return EXIT_FOUND if report.count(Verdict.PROBLEM) else 0


def _print(report: "Report", output: Output) -> None:
    from jackline_server.commands.checks.findings import Verdict  # noqa: PLC0415 - help needs none of it

    problems, warnings = report.count(Verdict.PROBLEM), report.count(Verdict.WARNING)
    if output is Output.JSON:
        checks = [
            {"subject": one.subject, "verdict": one.verdict.value, "what": one.what, "advice": one.advice}
            for one in report.found
        ]
        say_json({"problems": problems, "warnings": warnings, "checks": checks})
        return
    for one in report.found:
        say(f"{one.verdict.value:<{_WIDTH}}{_one_line(f'{one.subject}: {one.what}')}")
        if one.advice:
            say(f"{'':<{_WIDTH}}{_one_line(one.advice)}")
    say("", f"{_counted(problems, 'problem')}, {_counted(warnings, 'warning')}")


def _one_line(text: str) -> str:
    return printable(" / ".join(text.splitlines()))


def _counted(number: int, word: str) -> str:
    return f"{number or 'no'} {word}{'' if number == 1 else 's'}"
