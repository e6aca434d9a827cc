"""An unfinished file: what is believed after a crash, and what is left alone."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

import pytest

from softmrc.transfer import BusyError, ProtocolError, TargetError
from softmrc.transfer.incoming import IncomingFile, hash_existing, place_empty
from softmrc.transfer.messages import Entry
from softmrc.transfer.names import STAGING
from softmrc.transfer.tree import Tree

CHUNK = 8 << 20
DATA = os.urandom(1 << 20) * 17 + b"tail"
ENTRY = Entry(("dir", "file"), False, len(DATA), 0o640, 1_600_000_000_123_456_789)


@pytest.fixture
def tree(tmp_path):
    t = Tree(str(tmp_path / "out"))
    yield t
    t.close()


def chunk(i):
    return DATA[i * CHUNK : (i + 1) * CHUNK]


def digest(i):
    return hashlib.sha256(chunk(i)).digest()


def place(file, i):
    file._view(i)[:] = chunk(i)
    return file.accept(i, digest(i))


def whole():
    return hashlib.sha256(DATA).digest()


def target(tree):
    return os.path.join(tree.path, "dir", "file")


def test_finished_file_has_bytes_mode_and_time(tree):
    file = IncomingFile(tree, ENTRY)
    for i in (2, 0, 1):
        assert place(file, i)
    file.finish(whole())
    info = os.stat(target(tree))
    assert Path(target(tree)).read_bytes() == DATA
    assert stat.S_IMODE(info.st_mode) == 0o640
    assert info.st_mtime_ns == ENTRY.mtime_ns
    assert os.listdir(os.path.join(tree.path, STAGING)) == []


def test_resumes_with_what_was_journaled(tree):
    file = IncomingFile(tree, ENTRY)
    assert place(file, 0)
    file._view(1)[:] = chunk(1)  # placed, never hashed
    file.close()
    again = IncomingFile(tree, ENTRY)
    assert again.hashes == {0: digest(0)}
    assert place(again, 1)
    assert place(again, 2)
    again.finish(whole())
    assert Path(target(tree)).read_bytes() == DATA


def test_a_journaled_chunk_the_disk_lost_is_not_believed(tree):
    file = IncomingFile(tree, ENTRY)
    assert place(file, 0)
    assert place(file, 2)
    file.close()
    with open(os.path.join(tree.path, STAGING, file.key), "r+b") as raw:
        raw.seek(100)
        raw.write(b"\0" * 4096)
    again = IncomingFile(tree, ENTRY)
    assert again.hashes == {2: digest(2)}
    again.close()


def test_wrong_bytes_are_refused(tree):
    file = IncomingFile(tree, ENTRY)
    assert not file.accept(0, digest(0))
    with pytest.raises(ProtocolError):
        file.finish(whole())
    file.close()
    assert not os.path.exists(target(tree))


def test_wrong_whole_hash_leaves_the_old_file(tree):
    os.makedirs(os.path.join(tree.path, "dir"))
    with open(target(tree), "wb") as old:
        old.write(b"precious")
    file = IncomingFile(tree, ENTRY)
    assert all([place(file, i) for i in range(3)])
    with pytest.raises(TargetError, match="whole file"):
        file.finish(b"\0" * 32)
    file.close()
    assert Path(target(tree)).read_bytes() == b"precious"


def test_one_writer_at_a_time(tree):
    file = IncomingFile(tree, ENTRY)
    with pytest.raises(BusyError):
        IncomingFile(tree, ENTRY)
    file.close()
    IncomingFile(tree, ENTRY).close()


def test_links_inside_of_the_target_are_not_followed(tree, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    os.symlink(outside, os.path.join(tree.path, "dir"))
    file = IncomingFile(tree, ENTRY)
    assert all([place(file, i) for i in range(3)])
    with pytest.raises(TargetError, match="symbolic link"):
        file.finish(whole())
    file.close()
    assert list(outside.iterdir()) == []


def test_a_link_in_place_of_the_file_is_not_touched(tree, tmp_path):
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    os.symlink(victim, os.path.join(tree.path, "link"))
    with pytest.raises(TargetError, match="symbolic link"):
        tree.check_target(("link",), is_dir=False)
    with pytest.raises(TargetError):
        place_empty(tree, Entry(("link",), False, 0, 0o644, 0))
    assert victim.read_bytes() == b"precious"


def test_a_planted_link_in_the_staging_directory_is_refused(tree, tmp_path):
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    key = tree.staging_name(ENTRY.parts)
    os.symlink(victim, os.path.join(tree.path, STAGING, key))
    with pytest.raises(TargetError):
        IncomingFile(tree, ENTRY)
    os.unlink(os.path.join(tree.path, STAGING, key))
    os.link(victim, os.path.join(tree.path, STAGING, key))
    with pytest.raises(TargetError, match="plain file"):
        IncomingFile(tree, ENTRY)
    assert victim.read_bytes() == b"precious"


def test_no_room_is_an_error_not_a_signal(tree):
    huge = Entry(("huge",), False, 1 << 50, 0o600, 0)
    with pytest.raises(TargetError, match="cannot make room"):
        IncomingFile(tree, huge)


def test_finished_files_are_recognised_by_size_and_time(tree):
    path = os.path.join(tree.path, "x")
    with open(path, "wb") as f:
        f.write(b"abc")
    os.utime(path, ns=(5, 5))
    same = Entry(("x",), False, 3, 0o600, 5)
    assert hash_existing(tree, same) == {0: hashlib.sha256(b"abc").digest()}
    assert hash_existing(tree, Entry(("x",), False, 3, 0o600, 6)) is None
    assert hash_existing(tree, Entry(("x",), False, 4, 0o600, 5)) is None
    assert hash_existing(tree, Entry(("y",), False, 3, 0o600, 5)) is None


def test_empty_file(tree):
    place_empty(tree, Entry(("a", "b"), False, 0, 0o600, 7))
    info = os.stat(os.path.join(tree.path, "a", "b"))
    assert (info.st_size, info.st_mtime_ns) == (0, 7)
