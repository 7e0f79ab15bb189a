"""Files that a command writes for a person: what is replaced, what is written to, what is left."""

import os
import stat
import threading
from pathlib import Path

import pytest

from jackline_server.commands.writing import may_be_written, write_whole


def test_a_file_and_a_link_in_its_place_are_replaced_and_what_the_link_led_to_stays(tmp_path: Path) -> None:
    kept, link = tmp_path / "kept", tmp_path / "link"
    kept.write_text("old", "utf-8")
    link.symlink_to(kept)
    write_whole(link, "new")
    assert (link.read_text("utf-8"), link.is_symlink(), kept.read_text("utf-8")) == ("new", False, "old")


@pytest.mark.parametrize("by_link", [False, True])
def test_what_is_no_file_is_written_to_and_stays_what_it_is(tmp_path: Path, by_link: bool) -> None:
    place = pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    if by_link:
        place = tmp_path / "link"
        place.symlink_to(pipe)
    heard: list[str] = []
    reader = threading.Thread(target=lambda: heard.append(pipe.read_text("utf-8")), daemon=True)
    reader.start()
    write_whole(place, "new")
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert place.is_symlink() == by_link
    reader.join(10)
    assert heard == ["new"]


def test_a_place_that_can_not_be_written_is_known_before(tmp_path: Path) -> None:
    assert may_be_written(tmp_path / "new")
    assert may_be_written(Path(os.devnull))
    assert not may_be_written(tmp_path / "nowhere" / "new")
    with pytest.raises(IsADirectoryError):
        write_whole(tmp_path, "new")
