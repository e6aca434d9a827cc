"""Control messages from a hostile peer are refused in words, never by accident."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softmrc.errors import MrcError
from softmrc.transfer import ProtocolError
from softmrc.transfer.messages import Entry, decode, digest_of, encode, integer, pack_hashes, unpack_hashes

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@given(st.binary(max_size=64) | JSON.map(lambda v: json.dumps(v).encode()))
def test_decode_takes_objects_with_a_type_only(raw):
    with contextlib.suppress(ProtocolError):
        assert isinstance(decode(raw)["t"], str)


def test_deep_nesting_is_refused():
    with pytest.raises(ProtocolError):
        decode(b"[" * 100_000)


@given(JSON)
def test_entries_from_anything(data):
    try:
        entry = Entry.from_json(data)
    except MrcError:
        return
    assert Entry.from_json(entry.to_json()) == entry


@given(
    st.lists(st.sampled_from(["a", "b\udcff", "é", "x y"]), min_size=1, max_size=4),
    st.integers(0, 1 << 62),
    st.booleans(),
)
def test_entries_survive_the_wire(parts, size, is_dir):
    entry = Entry(tuple(parts), is_dir, 0 if is_dir else size, 0o751, -5)
    assert Entry.from_json(decode(encode("x", e=entry.to_json()))["e"]) == entry


@pytest.mark.parametrize("mode", [0o1777, 0o4755, -1, True, 1.0, "7"])
def test_set_id_bits_do_not_travel(mode):
    with pytest.raises(ProtocolError):
        Entry.from_json(["a", "f", 1, mode, 0])


@given(st.dictionaries(st.integers(0, 40), st.binary(min_size=32, max_size=32)))
def test_hash_lists(hashes):
    assert unpack_hashes(pack_hashes(hashes), 41) == hashes


@pytest.mark.parametrize("packed", [None, 7, "x", "AAAA", pack_hashes({5: b"\0" * 32})])
def test_bad_hash_lists(packed):
    with pytest.raises(ProtocolError):
        unpack_hashes(packed, 5)


@pytest.mark.parametrize("value", [None, True, -1, 11, 1.0, "1"])
def test_integers_are_checked(value):
    with pytest.raises(ProtocolError):
        integer({"n": value}, "n", 10)


@pytest.mark.parametrize("value", [None, "", "00", "zz" * 32, "00" * 33])
def test_digests_are_checked(value):
    with pytest.raises(ProtocolError):
        digest_of({"sha256": value})
