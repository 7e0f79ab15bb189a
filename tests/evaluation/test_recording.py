"""A run as a script and a case: what is told apart, and what is said of what can't be had."""

from jackline_server.commands.evaluation.recording import (
    Answered,
    AskedCall,
    Conversation,
    Recorded,
    Reply,
    recording,
)
from jackline_server.models.script import parse_script
from tests.evaluation.sights import SEEN, change, suite


def reply(conversation: int, text: str = "", *calls: AskedCall) -> Reply:
    return Reply(
        conversation=conversation,
        model="fast",
        text=text,
        reasoning="",
        calls=calls,
        finish="tool_calls" if calls else "stop",
        usage=None,
    )


def recorded(
    *replies: Reply, conversations: tuple[Conversation, ...] = (), is_stored: bool = True
) -> Recorded:
    return Recorded(
        seen=SEEN,
        is_stored=is_stored,
        replies=replies,
        answers=(Answered(step="confirm", option="pay", text='{"by": "post"}'),),
        conversations=conversations,
        side_calls=0,
        parent="",
        has_thread=False,
    )


def step(name: str, *, system: str = "", opening: str = "{}") -> Conversation:
    return Conversation(name=name, system=system or f"You are {name}.\nBe brief.", opening=opening)


CALL = AskedCall(tool="lookup", arguments='{"parcel":"P-1"}')


def test_turns_are_counted_in_each_conversation_and_told_apart_by_what_is_their_own() -> None:
    made = recording(
        recorded(
            reply(0, "", CALL),
            reply(1, "On the van."),
            reply(0, "Today."),
            conversations=(step("handle"), step("lookup")),
        ),
        name="once",
    )
    turns = parse_script(made.script, file="s").turns
    assert [(turn.when.turn, turn.when.system_contains) for turn in turns] == [
        (1, ("You are handle.",)),
        (1, ("You are lookup.",)),
        (2, ("You are handle.",)),
    ]
    assert turns[0].tool_calls[0].arguments == {"parcel": "P-1"}
    assert turns[1].usage == "none"


def test_visits_of_one_step_are_told_apart_by_what_they_were_given() -> None:
    two = (step("a", opening='{"n":1}'), step("a", opening='{"n":2}'))
    turns = parse_script(
        recording(recorded(reply(0, "x"), reply(1, "y"), conversations=two), name="n").script, file="s"
    ).turns
    assert [turn.when.user_contains for turn in turns] == [('{"n":1}',), ('{"n":2}',)]


def test_conversations_that_begin_alike_are_said_to_be_left_out() -> None:
    same = (step("a"), step("a"))
    made = recording(recorded(reply(0, "x"), reply(1, "y"), conversations=same), name="n")
    assert len(parse_script(made.script, file="s").turns) == 1
    assert any(note.startswith("1 reply is left out") for note in made.notes)


def test_broken_arguments_stay_as_they_were_written() -> None:
    broken = AskedCall(tool="lookup", arguments='{"parcel": ')
    made = recording(recorded(reply(0, "", broken), conversations=(step("a"),)), name="n")
    assert parse_script(made.script, file="s").turns[0].tool_calls[0].arguments == '{"parcel": '


def test_the_draft_is_a_case_that_nobody_has_reviewed() -> None:
    made = recording(recorded(reply(0, "x"), conversations=(step("a"),)), name="once")
    (case,) = suite(made.cases).cases
    assert (case.name, case.reviewed, case.expect.exit) == ("once", "", "claim")
    assert case.input_json == SEEN.input
    assert [(one.step, one.option, one.value) for one in case.answers] == [("confirm", "pay", {"by": "post"})]
    assert [(one.name, one.times) for one in case.expect.tools.called] == [("lookup", 2), ("pay", 1)]


def test_what_can_not_be_had_stands_at_the_head_of_the_draft() -> None:
    run = recorded(reply(0, "Write to [email]"), conversations=(step("a"),), is_stored=False)
    made = recording(change(run, side_calls=2, has_thread=True, parent="run_p"), name="n")
    for words in ("put its file beside", "2 replies are left out", "thread", "Run run_p", "[email]"):
        assert any(words in note for note in made.notes), words
        assert words in made.cases
    assert recording(recorded(), name="n").script == ""
