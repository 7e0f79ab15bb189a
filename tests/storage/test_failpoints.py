"""Failpoints: what a specification may say, what each action does, and a real kill inside the writer."""

import asyncio
import errno
import signal
import sys
from pathlib import Path

import pytest

from jackline_server import failpoints
from jackline_server.storage.sqlite.store import open_sqlite
from tests.conformance.stores import log


@pytest.mark.parametrize(
    "specification",
    [
        "store.writ=kill",
        "store.write",
        "store.write=explode",
        "store.write=err",
        "store.write=err(ENOSUCH)",
        "store.write=sleep",
        "store.write=sleep(soon)",
        "store.write=kill(9)",
        "store.write=kill@0",
        "store.write=kill;nonsense",
    ],
)
def test_a_specification_that_makes_no_sense_is_refused_and_changes_nothing(specification: str):
    failpoints.configure("store.sync=drop")

    with pytest.raises(failpoints.BadSpecification):
        failpoints.configure(specification)

    with pytest.raises(failpoints.Dropped):
        failpoints.hit("store.sync")


def test_an_unconfigured_failpoint_does_nothing():
    failpoints.configure("")
    for name in failpoints.NAMES:
        failpoints.hit(name)


def test_an_error_is_the_named_one_at_each_hit():
    failpoints.configure("store.write=err(ENOSPC); store.sync=drop")

    for _ in range(2):
        with pytest.raises(OSError, match=r"store\.write") as met:
            failpoints.hit("store.write")
        assert met.value.errno == errno.ENOSPC


def test_a_number_picks_one_hit():
    failpoints.configure("store.write=drop@3")

    failpoints.hit("store.write")
    failpoints.hit("store.write")
    with pytest.raises(failpoints.Dropped):
        failpoints.hit("store.write")
    failpoints.hit("store.write")


async def test_a_hang_holds_up_its_task_alone_and_can_be_cancelled():
    failpoints.configure("tool.mid=hang;claim.after=sleep(1)")
    await failpoints.hit_async("claim.after")
    hanging = asyncio.ensure_future(failpoints.hit_async("tool.mid"))

    done, _ = await asyncio.wait({hanging}, timeout=0.05)
    assert not done
    hanging.cancel()
    await asyncio.wait({hanging}, timeout=5)
    assert hanging.cancelled()


_WRITER = """
import asyncio, sys
from pathlib import Path
from jackline_server import failpoints
from jackline_server.storage.sqlite.store import open_sqlite
from tests.conformance.stores import append, new_run

async def main():
    opened = await open_sqlite(Path(sys.argv[1]))
    await opened.store.journal.create(new_run())
    failpoints.configure(sys.argv[2])
    for after in range(1, 10):
        await opened.store.journal.append(append(after=after))
        print(after + 1, flush=True)

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("specification", "acknowledged", "stored"),
    [
        ("store.write=kill@3", 3, 3),
        ("store.sync=kill@3", 3, 3),
        ("store.after_send_before_reply=kill@3", 3, 4),
    ],
)
async def test_a_process_killed_inside_a_commit_loses_nothing_acknowledged(
    folder: Path, specification: str, acknowledged: int, stored: int
):
    paths = [path for path in sys.path if path]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        _WRITER,
        str(folder),
        specification,
        stdout=asyncio.subprocess.PIPE,
        env={"PYTHONPATH": ":".join(paths)},
    )
    output, _ = await asyncio.wait_for(process.communicate(), 30)

    assert process.returncode == -signal.SIGKILL
    assert [int(line) for line in output.split()][-1] == acknowledged
    opened = await open_sqlite(folder)
    assert len(await log(opened.store)) == stored
    assert opened.voided_leases == 1
    await opened.close()
