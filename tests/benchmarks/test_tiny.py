"""Each measurement as small as can be, through everything that it does: servers, watchers, floors, read-back.

Nothing here looks at how fast anything was.
"""

import asyncio
import json
import os
import pstats
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.abort import KINDS
from benchmarks.catalog import BENCHMARKS
from benchmarks.fanout_floor import read_frames, write_frames
from benchmarks.fanout_watchers import judge
from benchmarks.metering import cpu_s, mapped_files, memory
from benchmarks.outside import ProgramFailed, ask
from benchmarks.served import ROOT

FIGURES = {
    "loop": {
        "cpu_us_per_turn", "floor_us_per_turn", "ratio", "solo_wall_ms_per_turn", "solo_floor_ms_per_turn",
    },
    "concurrent": {"kb_per_run", "floor_kb_per_run"},
    "fanout": {"deliveries_per_s", "floor_deliveries_per_s", "ratio"},
    "start": {"seconds", "floor_seconds", "rss_mb", "floor_rss_mb", "litellm_imported"},
    "control": {"rpc_p50_ms", "effect_p50_ms", "floor_rpc_p50_ms", "floor_effect_p50_ms", "rpc_p99_ms"},
    "abort": {f"{kind}_{what}_ms" for kind in KINDS for what in ("gone_p50", "seen_p50", "p99", "max")},
    "paused": {
        "rss_mb", "floor_rss_mb", "descriptors", "floor_descriptors", "boot_s", "floor_boot_s", "resume_ms",
        "floor_resume_ms",
    },
    "model": {
        "openai_call_ms", "openai_stream50_ms", "litellm_call_ms", "litellm_stream50_ms", "raw_call_ms",
        "raw_stream50_ms",
    },
}  # fmt: skip


async def bench(*words: str) -> tuple[int, str, str]:
    """The command as `scripts/bench` calls it: exit code, output, errors."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks", *words,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )  # fmt: skip
    async with asyncio.timeout(100):
        out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


@pytest.mark.parametrize("name", BENCHMARKS)
async def test_a_tiny_measurement_is_verified_and_tells_its_figures(name: str) -> None:
    code, out, err = await bench("--json", "--tiny", name)
    assert code == 0, err
    (line,) = out.splitlines()
    told: dict[str, Any] = json.loads(line)
    assert told["benchmark"] == name
    assert told["verified"] is True, told["problems"]
    assert (told["ok"], told["targets"]) == (True, []), "a figure of this size is not judged"
    assert told.keys() >= FIGURES[name] | {"ok", "targets", "parameters", "versions", "machine"}
    assert all(told[figure] is not None for figure in FIGURES[name])
    assert told["machine"]["cores"] >= 1


async def test_a_profile_of_the_loop_shows_the_server(tmp_path: Path) -> None:
    file = tmp_path / "loop.prof"
    code, _, err = await bench("--tiny", "--profile", str(file), "loop")
    assert code == 0, err
    functions: dict[tuple[str, int, str], object] = vars(pstats.Stats(str(file)))["stats"]
    assert any(name.endswith("runtime/driving/runner.py") for name, _, _ in functions)


async def test_a_floor_that_is_told_the_wrong_events_refuses(tmp_path: Path) -> None:
    order = {"source": str(tmp_path), "folder": str(tmp_path), "rounds": [["run_1"]], "cuts": [1]}
    with pytest.raises(ProgramFailed):
        await ask("benchmarks.loop_floor", order)


def test_a_fan_out_watcher_that_missed_a_frame_is_found(tmp_path: Path) -> None:
    frames = [b"\x0a\x04\x10\x01\x10\x01\x18\x01", b""]
    write_frames(tmp_path / "frames", frames)
    assert read_frames(tmp_path / "frames") == frames
    told = judge("run_1", 2, [[frames], [[]]])
    assert told["problems"]
    assert len(told["digests"]) == 2
    assert told["events"] == 1


def test_the_operating_system_tells_of_this_very_process() -> None:
    before = cpu_s(os.getpid())
    assert sum(number * number for number in range(200_000)) > 0
    assert cpu_s(os.getpid()) > before
    assert memory(os.getpid()).rss_kib >= memory(os.getpid()).pss_kib // 2 > 0
    assert any("grpc" in file for file in mapped_files(os.getpid()))
