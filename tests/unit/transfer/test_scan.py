from __future__ import annotations

import os

import pytest

from softmrc.transfer import SourceError
from softmrc.transfer.outgoing import OutgoingFile
from softmrc.transfer.scan import scan


@pytest.fixture
def source(tmp_path):
    root = tmp_path / "ckpt"
    (root / "b" / "empty").mkdir(parents=True)
    (root / "a").write_bytes(b"1")
    (root / "b" / "zero").touch()
    (root / "link").symlink_to("a")
    os.mkfifo(root / "pipe")
    return root


def test_directories_come_first_and_links_are_left_out(source):
    found = scan([str(source) + "/"])
    assert [e.entry.name for e in found.entries] == [
        "ckpt",
        "ckpt/a",
        "ckpt/b",
        "ckpt/b/empty",
        "ckpt/b/zero",
    ]
    assert (found.files, found.size) == (2, 1)
    assert [line.rsplit(": ", 1)[1] for line in sorted(found.skipped)] == ["symbolic link", "named pipe"]


def test_what_cannot_be_sent(source, tmp_path):
    for path in (source / "link", source / "pipe", tmp_path / "none"):
        with pytest.raises(SourceError, match="cannot send"):
            scan([str(path)])
    with pytest.raises(SourceError, match="both be named"):
        scan([str(source / "a"), str(source / "b") + "/../a"])


def test_a_change_after_listing_is_noticed(source):
    entry = scan([str(source / "a")]).entries[0]
    file = OutgoingFile(0, entry)
    os.utime(source / "a", ns=(1, 1))
    with pytest.raises(SourceError, match="changed"):
        file.check_unchanged()
    file.close()
    with pytest.raises(SourceError, match="changed"):
        OutgoingFile(0, entry)


def test_a_file_that_shrinks_is_an_error(source):
    (source / "a").write_bytes(b"0123456789")
    file = OutgoingFile(0, scan([str(source / "a")]).entries[0])
    os.truncate(source / "a", 4)
    with pytest.raises(SourceError, match="shorter"):
        file.read_next(memoryview(bytearray(16)))
    file.close()
