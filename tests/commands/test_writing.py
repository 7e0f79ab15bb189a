"""Files that a command writes for a person: what is replaced, what is written to, what is left."""

import os
import stat
from pathlib import Path

import pytest

from jackline_server.commands.writing import what_keeps_from_writing, write_named, write_whole


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
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_named(place, "new")
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert place.is_symlink() == by_link
    with os.fdopen(reader, "rb") as heard:
        assert heard.read() == b"new"


def test_a_place_that_can_not_be_written_is_known_before(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "lost").symlink_to(tmp_path / "nowhere" / "new")
    assert what_keeps_from_writing(tmp_path / "new") == ""
    assert what_keeps_from_writing(Path(os.devnull)) == ""
    for name in ("folder", "lost", "nowhere/new"):
        assert what_keeps_from_writing(tmp_path / name)
    with pytest.raises(IsADirectoryError):
        write_named(tmp_path / "folder", "new")


def test_a_link_that_a_person_names_is_followed_and_its_file_keeps_its_mode(tmp_path: Path) -> None:
    kept, link = tmp_path / "kept", tmp_path / "link"
    kept.write_text("old", "utf-8")
    kept.chmod(0o600)
    link.symlink_to("kept")
    write_named(link, "new")
    assert (link.is_symlink(), kept.read_text("utf-8"), kept.stat().st_mode & 0o777) == (True, "new", 0o600)


def test_a_link_to_nothing_is_followed_where_a_person_names_it(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("new")
    write_named(tmp_path / "link", "new")
    assert ((tmp_path / "link").is_symlink(), (tmp_path / "new").read_text("utf-8")) == (True, "new")


def test_a_pipe_that_nobody_reads_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="No such device"):
        write_named(tmp_path / "pipe", "new")
