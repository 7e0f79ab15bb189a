"""The examples of how a step watches itself, on the workflow page, do what the page says."""

import json
from dataclasses import replace

from jackline_server.core.facts import (
    Compacted,
    CompactionKind,
    NoticeCode,
    Noticed,
    Purpose,
    Reflected,
    StopReason,
)
from jackline_server.core.plan import Plan
from jackline_server.runtime.ports.definitions import Source
from jackline_server.testing.driving import Call, Driver, Ends, Says, drive
from tests.docs.pages import Block, blocks
from tests.docs.test_references import WORKFLOW, compiler, whole


def plan_of(first: str) -> Plan:
    """The example that begins with this step, compiled."""
    (block,) = (block for block in blocks(WORKFLOW, "yaml steps") if block.code.startswith(f"{first}:"))
    return compiled(block)


def compiled(block: Block) -> Plan:
    plan = compiler().compile(Source(yaml=whole(block), files={})).plan
    assert plan is not None
    return plan


def calls(tool: str, arguments: str = "{}") -> Says:
    return Says(calls=(Call(tool, arguments),))


def verdict(score: float, *claims: str) -> Says:
    return Says(text=json.dumps({"score": score, "unsupported": claims}))


def test_the_export_may_be_asked_after_seven_times_before_it_is_a_loop() -> None:
    asked = [Ends(output={"done": False})] * 8
    driver = drive(
        plan_of("watch_over"),
        calls("start_export"),
        *[calls("export_state")] * 7,
        Says(text="It goes on."),
        start_export=[Ends()],
        export_state=asked[:7],
    )
    told = [fact for fact in driver.facts if isinstance(fact, Noticed)]
    assert [fact.code for fact in told] == [NoticeCode.REPETITION]
    assert driver.finished.signal == "default"


def test_the_export_that_is_asked_after_for_ever_ends_the_step() -> None:
    driver = drive(
        plan_of("watch_over"), *[calls("export_state")] * 8, export_state=[Ends(output=n) for n in range(8)]
    )
    assert (driver.finished.signal, driver.finished.stop_leaf) == ("tool_loop", "repeat.args")


def test_the_research_looks_back_after_every_second_turn() -> None:
    replies = [calls("find", f'{{"words":"{n}"}}') for n in range(4)]
    driver = drive(plan_of("research"), *replies, Says(text="Found."), find=[Ends()] * 4)
    seen = [fact for fact in driver.facts if isinstance(fact, Reflected)]
    assert [(fact.succeeded, bool(fact.guidance)) for fact in seen] == [(2, True)] * 2


def judged(*replies: Says) -> Driver:
    return drive(
        plan_of("stock"), calls("count_stock", '{"article":"tea"}'), *replies, count_stock=[Ends(output=3)]
    )


def test_the_stock_is_judged_and_sent_back_once() -> None:
    stands = judged(Says(text="Five."), verdict(0.5, "five"), Says(text="Three."), verdict(0.8))
    assert (stands.finished.signal, stands.finished.result_json) == ("default", '"Three."')
    assert sum(call.started.purpose is Purpose.GROUND for call in stands.model_calls) == 2
    falls = judged(Says(text="Five."), verdict(0.5, "five"), Says(text="Five!"), verdict(0.79, "five"))
    assert falls.finished.stop_reason is StopReason.GROUNDING_FAILED
    assert falls.finished.partial


def test_the_audit_sums_up_the_first_pages_and_goes_on() -> None:
    plan = plan_of("audit")
    page = "x" * 7_900
    pages = [calls("page", f'{{"number":"{number}"}}') for number in range(14)]
    fast = plan.models["fast"]
    plan = replace(plan, models={**plan.models, "fast": replace(fast, context_window=32_000)})
    notes = Says(text="Pages 1 to 3 add up.")
    driver = drive(
        plan,
        *pages[:12],
        notes,
        *pages[12:],
        Says(text="All adds up."),
        page=[Ends(output=page)] * 14,
    )
    facts = [fact for fact in driver.facts if isinstance(fact, Compacted)]
    assert [fact.kind for fact in facts] == [CompactionKind.SUMMARY]
    assert driver.finished.result_json == '"All adds up."'
