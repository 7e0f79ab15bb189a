"""`jackline explain`: the forms, a run that goes on, and a token that may not see content."""

import json

import grpc

from jackline.v1.run_pb2 import Run, View
from jackline.v1.run_service_pb2 import GetRunResponse, StreamProgressRequest, StreamProgressResponse
from tests.cli.console import Console
from tests.client.explained import FOLDER, RULE, recorded
from tests.support.scripted_service import Failure, ScriptedService, StreamScript


def head_at(sequence: int) -> GetRunResponse:
    return GetRunResponse(run=Run(head_sequence=sequence))


def serve(service: ScriptedService, name: str, *, content: bool = True) -> str:
    """Serve a recorded run; its id."""
    service.log.extend(recorded(name, content=content))
    service.script("GetRun", head_at(len(service.log)))
    return service.log[0].run_id


async def test_a_person_reads_the_chain_of_causes(service: ScriptedService, console: Console) -> None:
    run_id = serve(service, "looped")
    done = await console.run("explain", run_id)
    text, _, _ = (FOLDER / "looped.txt").read_text(encoding="utf-8").partition(RULE)
    assert done.code == 0, done.err
    assert done.out == text
    assert [request.view for request in service.requests(StreamProgressRequest)] == [View.VIEW_FULL]


async def test_a_program_gets_the_same_as_json(service: ScriptedService, console: Console) -> None:
    run_id = serve(service, "looped")
    done = await console.run("explain", run_id, "-o", "json")
    found = json.loads(done.out)
    assert done.code == 0, done.err
    assert found["why"]["kind"] == "run_finished"
    assert found["why"]["causes"][0]["causes"][0]["kind"] == "noticed"
    assert [one["kind"] for one in found["contradictions"]] == ["write_repeated"]
    assert found["shares"][0]["limit"] == 40_000


async def test_a_token_that_may_not_see_content_is_told_less(
    service: ScriptedService, console: Console
) -> None:
    run_id = serve(service, "expired", content=False)
    service.script("GetRun", head_at(len(service.log)))
    service.streams.append(
        StreamScript(
            frames=(),
            end=Failure(
                code=grpc.StatusCode.PERMISSION_DENIED, reason="SCOPE_MISSING", metadata={"scope": "x"}
            ),
        )
    )
    done = await console.run("explain", run_id)
    _, _, text = (FOLDER / "expired.txt").read_text(encoding="utf-8").partition(f"{RULE}\n")
    assert done.code == 0, done.err
    assert done.out == text


async def test_metadata_asks_for_no_content(service: ScriptedService, console: Console) -> None:
    run_id = serve(service, "tools", content=False)
    done = await console.run("explain", run_id, "--metadata")
    assert done.code == 0, done.err
    assert [request.view for request in service.requests(StreamProgressRequest)] == [View.VIEW_METADATA]


async def test_a_run_that_goes_on_is_explained_up_to_now_and_not_waited_for(
    service: ScriptedService, console: Console
) -> None:
    events = recorded("open_waiting")
    service.script("GetRun", head_at(len(events)), head_at(len(events)))
    frame = StreamProgressResponse(events=events, sent_through=len(events), head_sequence=len(events))
    service.streams.append(StreamScript(frames=(frame,), hang=True))
    done = await console.run("explain", events[0].run_id)
    assert done.code == 0, done.err
    assert "it waits for an answer" in done.out


async def test_a_run_that_is_not_there_is_said_to_be_so(service: ScriptedService, console: Console) -> None:
    service.script("GetRun", Failure(code=grpc.StatusCode.NOT_FOUND, reason="RUN_NOT_FOUND"))
    done = await console.run("explain", "run_01hzy3v9q4n8xk2m5t7w6r0abc")
    assert done.code == 65
    assert done.out == ""
