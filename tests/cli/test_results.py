"""`jackline result`: every byte of a result, in a pipe, in a file, and never raw on a terminal."""

from pathlib import Path

import grpc

from jackline.v1 import run_service_pb2 as wire
from jackline_client.cli.exit_codes import ExitCode
from tests.cli.console import Console
from tests.support.scripted_service import RUN_ID, Failure, ScriptedService

WHOLE = "line one\n\x1b[2Jline two \u20ac\n".encode() * 1_000


def parts(service: ScriptedService, *, size: int = 7_001) -> None:
    """The result in pieces that are cut inside characters."""
    pieces = [WHOLE[start : start + size] for start in range(0, len(WHOLE), size)]
    service.script(
        "GetToolCallResult",
        *(
            wire.GetToolCallResultResponse(
                data=piece,
                total_bytes=len(WHOLE),
                kept_bytes=len(WHOLE),
                media_type="text/plain",
                complete=True,
            )
            for piece in pieces
        ),
    )


async def test_a_pipe_gets_every_byte(console: Console, service: ScriptedService) -> None:
    parts(service)
    done = await console.run("result", RUN_ID, "result-3")
    assert done.code == 0
    assert done.out.encode() == WHOLE
    asked = service.requests(wire.GetToolCallResultRequest)
    assert [request.offset for request in asked] == list(range(0, len(WHOLE), 7_001))
    assert {request.call_id for request in asked} == {"result-3"}


async def test_a_file_gets_every_byte_and_is_its_owner_s_alone(
    console: Console, service: ScriptedService, tmp_path: Path
) -> None:
    parts(service)
    target = tmp_path / "whole.txt"
    assert (await console.run("result", RUN_ID, "call_1", "--to", str(target))).code == 0
    assert target.read_bytes() == WHOLE
    assert target.stat().st_mode & 0o777 == 0o600


async def test_a_part_that_is_no_text_goes_into_a_file_byte_for_byte(
    console: Console, service: ScriptedService, tmp_path: Path
) -> None:
    parts(service)
    target = tmp_path / "chart.png"
    assert (await console.run("result", RUN_ID, "result-3", "--part", "2", "--to", str(target))).code == 0
    assert target.read_bytes() == WHOLE
    assert {request.part for request in service.requests(wire.GetToolCallResultRequest)} == {2}


async def test_a_file_that_is_there_is_not_written_over(
    console: Console, service: ScriptedService, tmp_path: Path
) -> None:
    target = tmp_path / "mine.txt"
    target.write_text("mine")
    assert (await console.run("result", RUN_ID, "call_1", "--to", str(target))).code == ExitCode.USAGE
    assert target.read_text() == "mine"
    assert not service.requests(wire.GetToolCallResultRequest)


async def test_nothing_is_left_of_a_result_that_could_not_be_read(
    console: Console, service: ScriptedService, tmp_path: Path
) -> None:
    service.script("GetToolCallResult", Failure(code=grpc.StatusCode.NOT_FOUND, reason="CALL_NOT_FOUND"))
    target = tmp_path / "whole.txt"
    assert (await console.run("result", RUN_ID, "call_9", "--to", str(target))).code != 0
    assert not target.exists()
