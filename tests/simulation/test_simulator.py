"""Thousands of worlds with two workers, drawn from seeds: the promises hold, and fencing is what holds them.

A seed that fails is had again with `python -m jackline_server.testing.simulator --seed N`.
JACKLINE_TEST_SEEDS says how many are tried.
"""

import asyncio
import os
import subprocess
import sys
from collections import Counter

import pytest

from jackline_server.testing.simulator import BUG, Outcome, simulate
from jackline_server.testing.validators.history import OK, Event, from_json, to_json

SEEDS = int(os.environ.get("JACKLINE_TEST_SEEDS", "2000"))
CHUNK = 125
UNFENCED = 300


def told(outcome: Outcome) -> str:
    lines = [
        f"seed {outcome.seed}: replay with python -m jackline_server.testing.simulator --seed {outcome.seed}"
    ]
    lines += [f"  {one.guarantee} {one.run}: {one.sentence}" for one in outcome.violations]
    return "\n".join(lines)


def families(outcomes: list[Outcome]) -> tuple[set[int], set[str]]:
    """How far below the top there are children, and the phases in which they ended."""
    levels, ends = set[int](), set[str]()
    for outcome in outcomes:
        runs = {run.run: run for run in outcome.history.runs}
        for run in runs.values():
            level, above = 0, run
            while above.parent:
                level, above = level + 1, runs[above.parent]
            if level:
                levels.add(level)
                ends.add(str(run.events[-1].fields["phase"]))
    return levels, ends


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_no_promise_is_broken_while_appends_are_fenced(first: int) -> None:
    broken = [outcome for seed in range(first, first + CHUNK) if (outcome := simulate(seed)).violations]
    assert not broken, "\n".join(told(outcome) for outcome in broken)


def test_without_fencing_stale_writers_break_the_order_of_logs() -> None:
    found = [violation for seed in range(UNFENCED) for violation in simulate(seed, fencing=False).violations]
    guarantees = {violation.guarantee for violation in found}
    assert "E1" in guarantees
    assert guarantees & {"O1", "O2", "O3", "D2"}


@pytest.mark.parametrize("seed", range(12))
def test_a_seed_always_gives_the_same_history(seed: int) -> None:
    first, second = simulate(seed), simulate(seed)
    assert first.digest == second.digest
    assert first.history == second.history


def test_a_seed_gives_the_same_history_in_another_process() -> None:
    script = "from jackline_server.testing.simulator import simulate\nprint(simulate(7).digest)"
    digests = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout.strip()
        for hash_seed in ("1", "2")
    }
    assert digests == {simulate(7).digest}


def test_seeds_differ() -> None:
    assert len({simulate(seed).digest for seed in range(10)}) == 10


def test_a_history_of_the_simulator_survives_its_json_form() -> None:
    history = simulate(3).history
    assert from_json(to_json(history)) == history


def _hold_each_race_of_a_command(outcomes: list[Outcome]) -> None:
    """Aborts against ends, pauses against crashes, commands that are sent again, starts that are delayed."""
    controls = [control for one in outcomes for control in one.history.controls]
    assert {one.already_terminal for one in controls if one.kind == "abort" and one.ending == OK} == {
        True,
        False,
    }
    sent = Counter((control.run, control.command_id) for control in controls if control.sequence)
    assert max(sent.values()) > 1
    logs = [
        [(event.kind, event.fields) for event in run.events] for one in outcomes for run in one.history.runs
    ]
    kinds = [[kind for kind, _ in log] for log in logs]
    assert any("run_recovered" in log[log.index("paused") :] for log in kinds if "paused" in log)
    delayed = [log for log in logs if log[0][1]["start_unix_ms"] is not None]
    assert any("step_started" in [kind for kind, _ in log] for log in delayed)
    assert any("step_started" not in [kind for kind, _ in log] for log in delayed)


def _hold_each_race_of_an_approval(outcomes: list[Outcome]) -> None:
    """Decisions of each kind that are taken, stale, late, second and for nobody, and times that pass."""
    ends = Counter[str]()
    for run in (run for one in outcomes for run in one.history.runs):
        asked = dict[object, object]()
        for event in run.events:
            if event.kind == "interrupt_raised" and event.fields["kind"] == "approval":
                asked[event.fields["interrupt_id"]] = event.fields["on_expiry"]
            elif event.kind == "interrupt_resolved" and event.fields["interrupt_id"] in asked:
                after = asked[event.fields["interrupt_id"]]
                ends[str(event.fields["option"]) or f"nobody: {after}"] += 1
    assert set(ends) == {
        *("approve", "edit_and_approve", "reject"),
        *("nobody: approve", "nobody: reject", "nobody: needs_review"),
    }
    decisions = [one for outcome in outcomes for one in outcome.history.controls if one.kind in ends]
    refused = {one.reason or one.rejection for one in decisions}
    assert {
        *("ARGUMENTS_CHANGED", "INVALID_ANSWER"),
        *("INTERRUPT_EXPIRED", "ALREADY_DECIDED", "RUN_TERMINAL"),
    } <= refused
    late = {one.rejection for one in decisions if one.ending == OK}
    assert "INTERRUPT_EXPIRED" in late  # accepted in time, and nobody came to it before its time was over


def _hold_each_race_of_many_runs(outcomes: list[Outcome]) -> None:
    """A switch against starts, children and crashes, pages that are sent again, owners that come and go."""
    logs = [run for one in outcomes for run in one.history.runs if one.history.switchings]
    halts = [
        (bool(run.parent), run.events[index - 1].kind)
        for run in logs
        for index, event in enumerate(run.events)
        if str(event.fields.get("principal")).startswith("killer-")
    ]
    assert {child for child, _ in halts} == {True, False}
    assert {"run_started", "run_recovered", "model_call_started"} <= {before for _, before in halts}
    assert "KILL_SWITCH_ENGAGED" in {start.reason for one in outcomes for start in one.history.starts}
    pages = [page for one in outcomes for page in one.history.bulk]
    assert {"ok", "lost", "refused"} <= {page.ending for page in pages}
    assert {page.kind for page in pages if page.runs} == {"pause", "resume", "steer", "abort"}
    given = Counter((page.client, run) for page in pages for run in page.runs)
    assert max(given.values()) > 1
    owned = [
        [stream for stream in one.history.streams if stream.run == run.run and stream.grace_ms is not None]
        for one in outcomes
        for run in one.history.runs
        if any(event.fields.get("abort_cause") == "client_gone" for event in run.events)
    ]
    assert {stream.ending for streams in owned for stream in streams} >= {"closed", "lost"}
    assert any(len({stream.client for stream in streams}) > 1 for streams in owned)
    assert any(len(streams) > 2 for streams in owned)


def test_the_worlds_are_as_bad_as_they_claim_to_be() -> None:
    """What a few hundred worlds hold together: else a green run would say little."""
    outcomes = [simulate(seed) for seed in range(800)]
    kinds = {event.kind for one in outcomes for run in one.history.runs for event in run.events}
    endings = {stream.ending for one in outcomes for stream in one.history.streams}
    causes = {
        str(event.fields["cause"])
        for one in outcomes
        for run in one.history.runs
        for event in run.events
        if event.kind == "run_recovered"
    }
    phases = {
        str(event.fields["phase"])
        for one in outcomes
        for run in one.history.runs
        for event in run.events
        if event.kind == "run_finished"
    }
    reasons = {
        str(event.fields["stop_reason"])
        for one in outcomes
        for run in one.history.runs
        for event in run.events
        if event.kind == "step_finished"
    }
    assert causes == {"crash", "drain", "queue", "wake"}
    assert phases == {"succeeded", "needs_review", "exhausted", "failed", "aborted"}
    assert endings == {"ok", "refused", "lost", "closed"}
    assert {
        "interrupt_raised",
        "interrupt_resolved",
        "paused",
        "resumed",
        "steered",
        "timer_fired",
        "consulted",
        "bounds_adjusted",
    } <= kinds
    assert {"reflected", "grounded"} <= kinds
    _hold_each_race_of_a_command(outcomes)
    _hold_each_race_of_an_approval(outcomes)
    _hold_each_race_of_many_runs(outcomes)
    assert {"tool_loop", "grounding_failed", "hook_veto", "guardrail", "policy_denied"} <= reasons
    busy = {(start.on_busy, start.disposition) for one in outcomes for start in one.history.starts}
    assert {("enqueue", "queued"), ("steer", "steered"), ("replace", "replaced")} <= busy
    refused = {(start.on_busy, start.reason) for one in outcomes for start in one.history.starts}
    assert ("reject", "THREAD_BUSY") in refused
    assert "messages_appended" in kinds
    shared = [thread for one in outcomes for thread in one.history.threads]
    assert any(len({said.run for said in thread.messages}) > 2 for thread in shared)
    notices = {
        str(event.fields["code"])
        for one in outcomes
        for run in one.history.runs
        for event in run.events
        if event.kind == "noticed"
    }
    assert {"result_stored", "tool_calls_in_text", "history"} <= notices
    read = {
        str(event.fields["status"])
        for one in outcomes
        for run in one.history.runs
        for event in run.events
        if event.kind == "tool_call_finished" and event.fields["tool"] == "read_result"
    }
    assert {"completed", "failed"} <= read
    assert _questions_were_answered_and_their_calls_went_on(outcomes)
    assert BUG not in {violation.guarantee for one in outcomes for violation in one.violations}


def test_there_are_families_of_three_levels_that_end_in_every_way() -> None:
    outcomes = [simulate(seed) for seed in range(400)]
    levels, ends = families(outcomes)
    assert levels == {1, 2}
    assert ends == {"succeeded", "needs_review", "exhausted", "failed", "aborted"}
    refused = {
        str(event.fields["problem"])
        for one in outcomes
        for run in one.history.runs
        for event in run.events
        if event.kind == "tool_call_finished"
    }
    assert "child_depth" in refused


def test_people_choose_fill_in_say_decline_and_let_the_time_pass_and_are_wrong_late_or_second() -> None:
    outcomes = [simulate(seed) for seed in range(300)]
    decided = set[tuple[str, str]]()
    for run in (run for one in outcomes for run in one.history.runs):
        tools = {event.fields["call_id"]: event.fields["tool"] for event in run.events if _is_call(event)}
        calls = {
            str(event.fields["interrupt_id"]): str(event.fields["call_id"])
            for event in run.events
            if event.kind == "interrupt_raised"
        }
        for event in run.events:
            if event.kind == "interrupt_resolved":
                name = tools.get(calls[str(event.fields["interrupt_id"])], "")
                decided.add((str(name), str(event.fields["option"])))
    assert {("permit", option) for option in ("approve", "reject", "later", "")} <= decided
    assert {("sign", option) for option in ("approve", "reject", "later", "")} <= decided
    assert {("fill", option) for option in ("accept", "decline", "")} <= decided
    assert {("ask_person", option) for option in ("decline", "")} <= decided
    signals = {
        (str(event.fields["signal"]), bool(event.fields["next_step"]))
        for one in outcomes
        for run in one.history.runs
        for event in run.events
        if event.kind == "step_finished" and event.step in run.caps.asks
    }
    assert {("approve", True), ("reject", False), ("later", False), ("needs_review", False)} <= signals
    answers = [control for one in outcomes for control in one.history.controls if control.kind == "answer"]
    refused = {control.reason or control.rejection for control in answers}
    assert {"INVALID_ANSWER", "UNKNOWN_OPTION", "ALREADY_DECIDED", "INTERRUPT_EXPIRED"} <= refused


def _is_call(event: Event) -> bool:
    return event.kind == "tool_call_requested"


def _questions_were_answered_and_their_calls_went_on(outcomes: list[Outcome]) -> bool:
    """True if calls of each common effect asked, went on with an answer, and came to an end."""
    ended: set[str] = set()
    for run in (run for one in outcomes for run in one.history.runs):
        asked: set[object] = set()
        effects = {
            event.fields["call_id"]: str(event.fields["effect"])
            for event in run.events
            if event.kind == "tool_call_started"
        }
        for event in run.events:
            call = event.fields.get("call_id")
            if event.kind == "tool_call_finished" and event.fields["status"] == "asking":
                asked.add(call)
            elif event.kind == "tool_call_finished" and event.fields["status"] == "completed":
                ended |= {effects[call]} if call in asked else set()
    return ended >= {"read", "idempotent", "write"}


def test_the_simulator_leaves_no_loop_behind() -> None:
    simulate(1)
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()
