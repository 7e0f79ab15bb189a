"""The tries of all cases: some at once, each a run, and a verdict on each.

Owns starting, attending, judging and ending them. Does not own how a server is asked (`door`), what is
expected (`expecting`), or how it is shown.

A try that can't be made or looked at is an error and no failure: it says nothing of the workflow. Whoever is
cancelled calls `stop`, which ends what was started and not what anybody else has.
"""

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from secrets import token_hex

from jackline_client.errors import JacklineError
from jackline_server.commands.evaluation import judging
from jackline_server.commands.evaluation.cases import Case, Existing, Suite
from jackline_server.commands.evaluation.door import Door, NotEnded
from jackline_server.commands.evaluation.expecting import misses, needs_content, wanted_state
from jackline_server.commands.evaluation.results import (
    CaseResult,
    Judged,
    Missed,
    Results,
    Spent,
    SuiteResult,
    Try,
    Verdict,
    verdict_of,
)
from jackline_server.commands.evaluation.sight import Sight, Used
from jackline_server.commands.evaluation.starts import Starts
from jackline_server.core.instruments import ExpressionEvaluator

_NEEDS_REVIEW = "needs_review"
_ABORT_S = 10.0
_START_S = 10.0

OnCase = Callable[[str, CaseResult], None]
"""Called with the suite's name and a case when its last try is over."""


class Evaluation:
    """All cases of some suites against one server."""

    def __init__(
        self,
        *,
        door: Door,
        suites: Sequence[Suite],
        expressions: ExpressionEvaluator,
        at_once: int,
        on_case: OnCase,
    ) -> None:
        self._door = door
        self._suites = suites
        self._expressions = expressions
        self._room = asyncio.Semaphore(at_once)
        self._on_case = on_case
        self._id = token_hex(8)
        self._starts = Starts()
        self._ended: set[str] = set()
        self._started_at = datetime.now(UTC)
        self._server = ""
        self._tries: dict[tuple[str, str], list[Try]] = {
            (suite.name, case.name): [] for suite in suites for case in suite.cases
        }
        self.under_way = 0
        """Tries that have begun and not ended."""

    async def run(self) -> Results:
        """Make every try. Raises JacklineError if the server can't be reached at all."""
        self._server = await self._door.version()
        async with asyncio.TaskGroup() as group:
            for suite in self._suites:
                for case in suite.cases:
                    for number in range(1, case.times + 1):
                        group.create_task(self._one(suite, case, number))
        return self.results(complete=True)

    async def stop(self, reason: str) -> str:
        """End the runs that this has started and that still live. Takes 30 s at most.

        Says in words how many they were, and which command lists them. A start that is not answered yet is
        waited for: its run may be there already, or be about to be.
        """
        left = await self._end_living(reason)
        answered, unanswered = await self._starts.settled(within_s=_START_S)
        if answered or unanswered:
            left = await self._end_living(reason)
        ended = len(self._ended)
        words = f"{ended} {'run was' if ended == 1 else 'runs were'} ended"
        if left:
            words += f"; {left}"
        if unanswered:
            words += f"; {unanswered} {'start was' if unanswered == 1 else 'starts were'} not answered"
        listed = f": jackline ls --label eval_id={self._id}" if ended or left or unanswered else ""
        return words + listed

    async def _end_living(self, reason: str) -> str:
        """End them all, each whatever becomes of the others; in words, what kept some from being ended."""
        failed: list[JacklineError] = []
        try:
            async with asyncio.timeout(_ABORT_S):
                for run_id in await self._door.living({"eval_id": self._id}):
                    try:
                        await self._door.abort(run_id, reason)
                    except JacklineError as error:
                        failed.append(error)
                    else:
                        self._ended.add(run_id)
        except JacklineError as error:
            return f"which of its runs live can't be told ({error})"
        except TimeoutError:
            return f"the server did not answer within {_ABORT_S:g} s, and runs may go on"
        return f"{len(failed)} could not be ended ({failed[0]})" if failed else ""

    def told(self) -> str:
        """How far it is, in words."""
        ended = sum(len(tries) for tries in self._tries.values())
        wanted = sum(case.times for suite in self._suites for case in suite.cases)
        return f"{ended} of {wanted} tries are over, {self.under_way} under way"

    def results(self, *, complete: bool) -> Results:
        """What has come of the cases so far, in the order of their files."""
        return Results(
            server=self._server,
            started_at=self._started_at.isoformat(timespec="seconds"),
            complete=complete,
            suites=tuple(
                SuiteResult(
                    name=suite.name,
                    path=suite.path,
                    cases=tuple(self._case_result(suite, case) for case in suite.cases),
                )
                for suite in self._suites
            ),
        )

    def _case_result(self, suite: Suite, case: Case) -> CaseResult:
        tries = tuple(sorted(self._tries[(suite.name, case.name)], key=lambda one: one.number))
        return CaseResult(
            name=case.name,
            verdict=verdict_of(tries, pass_at_least=case.pass_at_least)
            if len(tries) == case.times
            else Verdict.ERROR,
            reviewed=case.reviewed,
            pass_at_least=case.pass_at_least,
            tries=tries,
        )

    async def _one(self, suite: Suite, case: Case, number: int) -> None:
        async with self._room:
            self.under_way += 1
            made = await _Trial(
                door=self._door,
                starts=self._starts,
                case=case,
                labels={"eval": suite.name, "case": case.name, "eval_id": self._id},
                expressions=self._expressions,
            ).made(number)
            self.under_way -= 1
        tries = self._tries[(suite.name, case.name)]
        tries.append(made)
        if len(tries) == case.times:
            self._on_case(suite.name, self._case_result(suite, case))


class _Trial:
    """One try of one case."""

    def __init__(
        self,
        *,
        door: Door,
        starts: Starts,
        case: Case,
        labels: dict[str, str],
        expressions: ExpressionEvaluator,
    ) -> None:
        self._door = door
        self._starts = starts
        self._case = case
        self._labels = labels
        self._expressions = expressions
        self._run_id = ""

    async def made(self, number: int) -> Try:
        """The try, made. Never raises for what the server says of it."""
        try:
            unanswered = await self._carried_out()
            seen = await self._door.sight(self._run_id, full=needs_content(self._case.expect))
        except (JacklineError, NotEnded) as error:
            spent = await self._left()
            problem = _said(error)
            return Try(
                number=number, verdict=Verdict.ERROR, run_id=self._run_id, spent=spent, problem=problem
            )
        missed = [
            Missed(what=one.what, expected=one.expected, actual=one.actual)
            for one in misses(self._case.expect, seen, expressions=self._expressions)
        ]
        if unanswered:  # whatever else is otherwise comes of that
            missed = [Missed(what="answers", expected="one that fits", actual=unanswered)]
        judged = await self._judged(seen) if not missed else None
        return self._verdict(number, seen, missed, judged)

    async def _carried_out(self) -> str:
        """Bring the run to its end; a question that nobody answers, in words."""
        case = self._case
        if isinstance(case.origin, Existing):
            self._run_id = case.origin.run_id
            return ""
        # Who expects a review and answers nothing wants to see what follows when nobody is there.
        unattended = not case.answers and wanted_state(case.expect) == _NEEDS_REVIEW
        self._run_id = await self._starts.made(
            self._door.start(case, labels=self._labels, unattended=unattended)
        )
        if unattended:
            await self._door.wait(self._run_id)
            return ""
        unanswered = await self._door.attend(self._run_id, case.answers)
        if unanswered:
            await self._door.abort(self._run_id, "a case of jackline eval has no answer to its question")
            await self._door.wait(self._run_id)
        return unanswered

    async def _left(self) -> Spent:
        """End the run of a try that went wrong, if it can be ended; what it has used, as far as is known.

        A run that was there before is left as it is.
        """
        if not self._run_id or isinstance(self._case.origin, Existing):
            return Spent()
        try:
            async with asyncio.timeout(_ABORT_S):
                await self._door.abort(self._run_id, "a try of jackline eval went wrong")
                await self._door.wait(self._run_id)
                return _spent((await self._door.sight(self._run_id, full=False)).used)
        except (JacklineError, NotEnded, TimeoutError):
            return Spent()

    def _verdict(self, number: int, seen: Sight, missed: list[Missed], judged: Judged | None) -> Try:
        wanted = self._case.expect.judge
        problem = ""
        notes: list[str] = []
        if judged is not None and wanted is not None:
            if judged.passed is False:
                missed.append(Missed(what="judge", expected=_short(wanted.criteria), actual=judged.reason))
            elif judged.passed is None and wanted.on_error == "fail":
                problem = f"the judge gave no word: {judged.reason}"
            elif judged.passed is None:
                notes.append(f"not judged: {judged.reason}")
        verdict = Verdict.FAILED if missed else Verdict.ERROR if problem else Verdict.PASSED
        return Try(
            number=number,
            verdict=verdict,
            run_id=seen.run_id,
            state=seen.state,
            exit=seen.exit,
            spent=_spent(seen.used),
            missed=tuple(missed),
            judged=judged,
            problem=problem,
            notes=tuple(notes),
        )

    async def _judged(self, seen: Sight) -> Judged | None:
        """The judge's word, where one is wanted: only of what is right otherwise, since it costs."""
        wanted = self._case.expect.judge
        if wanted is None:
            return None
        asked = judging.question(seen, criteria=wanted.criteria, model=self._case.judge_model)
        if isinstance(asked, judging.Word):
            return Judged(run_id="", passed=asked.passed, reason=asked.reason)
        return await self._ask(asked)

    async def _ask(self, asked: judging.Question) -> Judged:
        run_id = ""
        try:
            labels = {**self._labels, "eval_judge": "true"}
            run_id = await self._starts.made(
                self._door.start_source(asked.source, asked.input, labels=labels)
            )
            await self._door.wait(run_id)
            seen = await self._door.sight(run_id, full=True)
        except (JacklineError, NotEnded) as error:
            return Judged(run_id=run_id, passed=None, reason=_said(error))
        word = judging.word(seen)
        return Judged(run_id=run_id, passed=word.passed, reason=word.reason, spent=_spent(seen.used))


def _spent(used: Used) -> Spent:
    return Spent(
        tokens=used.tokens,
        cost_micros=used.cost_micros,
        iterations=used.iterations,
        tool_calls=used.tool_calls,
        active_ms=used.active_ms,
    )


def _said(error: Exception) -> str:
    """What went wrong, with each field that the server names."""
    reason = getattr(error, "reason", "")
    fields = [
        f"{one.field}: {one.description}" if one.field else one.description
        for one in getattr(error, "field_violations", ())
    ]
    more = "; ".join(one for one in fields if one not in str(error))
    said = f"{str(error).rstrip('.')}: {more}" if more else str(error)
    return f"{said} [{reason}]" if reason else said


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 200 else f"{line[:200]}…"  # noqa: PLR2004 - as values are shown
