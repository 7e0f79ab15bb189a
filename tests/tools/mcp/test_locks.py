"""Reading a lock file: what may be one."""

import os
from pathlib import Path

import pytest

from jackline_server.plain_files import read_regular
from jackline_server.runtime.pinned_tools import BadPins
from jackline_server.tools.locks import MOST_BYTES, read_lock_file


@pytest.mark.timeout(20)
def test_a_pipe_or_a_folder_in_the_place_of_a_lock_is_neither_waited_for_nor_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, tmp_path / "nothing", tmp_path / "n\0ul"):
        with pytest.raises(OSError) as refused:  # noqa: PT011 - a kind of its own for each
            read_lock_file(path)
        assert refused.value.strerror


def test_a_lock_without_end_pins_nothing_and_is_not_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "endless.lock"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(BadPins):
        read_lock_file(path)
    assert len(read_regular(path, most_bytes=MOST_BYTES)) == MOST_BYTES + 1
