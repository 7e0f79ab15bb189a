"""`jackline answer`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from jackline.v1.run_pb2 import Interrupt, View
from jackline_client.cli.answer_forms import form_of, has_other_than_text, hints, meaning_in
from jackline_client.cli.below import asked_below, has_living_children
from jackline_client.cli.commands.controlling import WaitOption, control_options
from jackline_client.cli.exit_codes import ExitCode
from jackline_client.cli.given import read_fields
from jackline_client.cli.late_answers import what_became
from jackline_client.cli.options import (
    AddressOption,
    ContextOption,
    JsonOption,
    OpenRunArgument,
    ReasonOption,
)
from jackline_client.cli.receipts import Asked, Stage, report
from jackline_client.cli.screen import Screen
from jackline_client.cli.server_choice import Named
from jackline_client.cli.session import carry_out
from jackline_client.cli.wording import ACCEPT, answer_commands, count
from jackline_client.errors import (
    AlreadyDecided,
    InterruptExpired,
    InterruptNotFound,
    InvalidAnswer,
    JacklineError,
    ScopeMissing,
    UnknownOption,
    WrongInterruptKind,
)

if TYPE_CHECKING:
    from jackline_client import JacklineClient


def answer(
    run_id: OpenRunArgument,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[INTERRUPT] OPTION", help="INTERRUPT may be left out if exactly one is open."
        ),
    ] = None,
    *,
    text: Annotated[
        str, typer.Option("--text", metavar="TEXT", help="Words for the model, or for the record.")
    ] = "",
    field: Annotated[
        list[str] | None,
        typer.Option(
            "--field",
            "-f",
            metavar="KEY=VALUE",
            help="One field of the data; KEY:=JSON for lists and objects.",
        ),
    ] = None,
    reason: ReasonOption = "",
    wait: WaitOption = Stage.EFFECTIVE,
    as_json: JsonOption = False,
    address: AddressOption = None,
    context: ContextOption = None,
) -> None:
    """Answer an open question of a run. Without OPTION: list the answers that there are, and what they take.

    With -f the OPTION is `accept`, if it is left out.
    """
    interrupt_id, option = _read(words or [], has_fields=bool(field))
    fields, said = field or (), _said(text, field)
    server = Named(address=address, context=context)

    async def work(client: "JacklineClient", screen: Screen) -> ExitCode:
        of, chosen, data = run_id, interrupt_id, said
        typed = has_other_than_text(fields)
        if chosen is None or option is None or typed or (option == ACCEPT and not said):
            found = await _open_questions(client, run_id)
            asked = _meant(found, chosen)
            if option is None or (chosen is None and asked is None):
                await _show_answers(client, screen, run_id, found, server.flag)
                return ExitCode.USAGE if option is None else ExitCode.REFUSED
            if option == ACCEPT and not said and _wants_data(asked):
                _show_form(screen, asked)
                return ExitCode.USAGE
            of, chosen = (asked.run_id or run_id, asked.interrupt_id) if asked else (run_id, chosen or "")
            if typed:
                data = read_fields(fields, meaning=meaning_in(asked.schema_json if asked else b""))
        try:
            response = await client.answer(of, chosen, option, text=data, **control_options(reason, wait))
        except InvalidAnswer as error:
            await _show_what_fits(client, screen, (of, chosen), error, fields)
            raise
        except (
            UnknownOption,
            WrongInterruptKind,
            InterruptNotFound,
            AlreadyDecided,
            InterruptExpired,
        ) as error:
            await _show_instead(client, screen, (run_id, of, chosen), error, server.flag)
            raise
        answered = Asked(run_id=of, name="answer", wait=wait, as_json=as_json, server=server)
        return await report(client, screen, response, answered)

    carry_out(work, server=server)


def _said(text: str, field: Sequence[str] | None) -> str:
    """The words, or the fields as they stand."""
    if field and text:
        raise typer.BadParameter("give -f or --text, not both")
    return read_fields(field) if field else text


def _read(words: list[str], *, has_fields: bool) -> tuple[str | None, str | None]:
    """The interrupt and the option, as far as they were given."""
    match words:
        case []:
            return None, ACCEPT if has_fields else None
        case [option]:
            return None, option
        case [interrupt_id, option]:
            return interrupt_id, option
        case _:
            raise typer.BadParameter("write RUN [INTERRUPT] OPTION")


async def _open_questions(client: "JacklineClient", run_id: str) -> list[Interrupt]:
    """The open questions of a run; of those below it where it has none itself.

    Without their forms where the credential does not show content.
    """
    try:
        return await _questions(client, run_id, View.VIEW_FULL)
    except ScopeMissing:
        return await _questions(client, run_id, View.VIEW_METADATA)


async def _questions(client: "JacklineClient", run_id: str, view: View.ValueType) -> list[Interrupt]:
    run = await client.get_run(run_id, view=view)
    if run.interrupts or not has_living_children(run):
        return list(run.interrupts)
    return await asked_below(client, run_id, view=view)


def _meant(found: Sequence[Interrupt], interrupt_id: str | None) -> Interrupt | None:
    """The question that was named, or the only one that is open."""
    if interrupt_id is not None:
        return next((one for one in found if one.interrupt_id == interrupt_id), None)
    return found[0] if len(found) == 1 else None


async def _show_answers(
    client: "JacklineClient", screen: Screen, run_id: str, found: Sequence[Interrupt], flag: str
) -> None:
    """Says on standard error which answers there are, as commands for typing."""
    if not found:
        screen.problem(f"jackline: the run {run_id} has no open question")
        await _show_ended(client, screen, run_id)
        return
    where = "" if all(one.run_id in ("", run_id) for one in found) else " below it"
    screen.problem(f"jackline: the run {run_id} has {count(len(found), 'open question')}{where}:")
    for interrupt in found:
        for command in answer_commands(interrupt.run_id or run_id, interrupt, flag):
            screen.problem(f"  {command}")


async def _show_instead(
    client: "JacklineClient",
    screen: Screen,
    question: tuple[str, str, str],
    error: JacklineError,
    flag: str,
) -> None:
    """Says which answers there are, and how the one of `run, asker, interrupt` ended."""
    run_id, of, interrupt_id = question
    found = await _open_questions(client, run_id)
    if found:
        await _show_answers(client, screen, run_id, found, flag)
    else:
        screen.problem(f"jackline: the run {run_id} has no open question")
    if not found or isinstance(error, AlreadyDecided | InterruptExpired):
        await _show_ended(client, screen, of, interrupt_id)


async def _show_ended(
    client: "JacklineClient", screen: Screen, run_id: str, interrupt_id: str | None = None
) -> None:
    said = await what_became(client, run_id, interrupt_id)
    if said:
        screen.problem(f"  {said}")


def _wants_data(asked: Interrupt | None) -> bool:
    return asked is not None and form_of(asked.schema_json).is_wanted


def _show_form(screen: Screen, asked: Interrupt | None) -> None:
    if asked is None or not asked.schema_json:
        return
    screen.problem("jackline: say what the answer is:")
    for line in form_of(asked.schema_json).lines:
        screen.problem(f"  {line}")


async def _show_what_fits(
    client: "JacklineClient",
    screen: Screen,
    question: tuple[str, str],
    error: InvalidAnswer,
    pairs: Sequence[str],
) -> None:
    """Says on standard error what the question wants, and which fields were given as another type."""
    run_id, interrupt_id = question
    asked = _meant(await _open_questions(client, run_id), interrupt_id)
    _show_form(screen, asked)
    for violation in error.field_violations:
        for hint in hints(pairs, violation.description, asked.schema_json if asked else b""):
            screen.problem(f"  {hint}")
