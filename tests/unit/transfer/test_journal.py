"""The journal never promises more than was written, whatever happened to its tail."""

from __future__ import annotations

import hashlib
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softmrc.transfer.journal import Journal, chunk_count, chunk_size_for

SIZE, CHUNK = 1000, 10
HASHES = {i: hashlib.sha256(bytes([i])).digest() for i in range(100)}


def opened(path):
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)


def journal(path, size=SIZE, chunk=CHUNK, name="f"):
    return Journal(opened(path), name, size, chunk)


def filled(path, indexes):
    j = journal(path)
    for i in indexes:
        j.add(i, HASHES[i])
    j.close()


def test_remembers(tmp_path):
    filled(tmp_path / "j", [3, 1, 2])
    j = journal(tmp_path / "j")
    assert j.hashes == {i: HASHES[i] for i in (1, 2, 3)}
    j.close()


@settings(max_examples=60)
@given(indexes=st.lists(st.integers(0, 99), max_size=8), cut=st.integers(0, 400), junk=st.binary(max_size=50))
def test_torn_tail_costs_only_its_record(tmp_path_factory, indexes, cut, junk):
    path = tmp_path_factory.mktemp("journal") / "j"
    filled(path, indexes)
    data = path.read_bytes()
    path.write_bytes(data[: max(0, len(data) - cut)] + junk)
    j = journal(path)
    assert all(HASHES[i] == h for i, h in j.hashes.items())
    assert set(j.hashes) <= set(indexes)
    before = dict(j.hashes)
    j.add(50, HASHES[50])
    j.close()
    j = journal(path)
    assert j.hashes == {**before, 50: HASHES[50]}
    j.close()


@settings(max_examples=60)
@given(at=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_a_flipped_bit_is_noticed(tmp_path_factory, at, bit):
    path = tmp_path_factory.mktemp("journal") / "j"
    filled(path, [1, 2, 3])
    data = bytearray(path.read_bytes())
    data[at % len(data)] ^= 1 << bit
    path.write_bytes(data)
    j = journal(path)
    assert all(HASHES[i] == h for i, h in j.hashes.items())
    j.close()


@pytest.mark.parametrize("other", [{"size": 999}, {"chunk": 20}, {"name": "g"}])
def test_another_file_starts_anew(tmp_path, other):
    filled(tmp_path / "j", [1, 2])
    j = journal(tmp_path / "j", **other)
    assert j.hashes == {}
    j.close()


def test_forget_all(tmp_path):
    filled(tmp_path / "j", [1, 2])
    j = journal(tmp_path / "j")
    j.forget_all()
    j.add(3, HASHES[3])
    j.close()
    j = journal(tmp_path / "j")
    assert set(j.hashes) == {3}
    j.close()


@given(st.integers(1, 1 << 50))
def test_chunks_are_bounded(size):
    chunk = chunk_size_for(size)
    assert 1 <= chunk_count(size, chunk) <= 1 << 17
    assert chunk % (8 << 20) == 0
