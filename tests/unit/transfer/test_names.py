"""Names from a hostile sender: whatever is accepted stays inside of the target."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softmrc.text import visible
from softmrc.transfer import NameRefusedError
from softmrc.transfer.names import STAGING, refuse_clashes, split_name

NAMES = st.text(alphabet=st.sampled_from("ab./\\\0 ~Ü\udce4\n-"), max_size=24) | st.text(max_size=40)


@given(NAMES)
def test_accepted_names_stay_inside(name):
    try:
        parts = split_name(name)
    except NameRefusedError:
        return
    assert "/".join(parts) == name
    assert not any(p in ("", ".", "..") or "/" in p or "\0" in p for p in parts)
    joined = os.path.normpath(os.path.join("/target", *parts))
    assert joined.startswith("/target/")
    assert joined == "/target/" + name
    assert all(len(os.fsencode(p)) <= 255 for p in parts)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "/etc/passwd",
        "..",
        "../x",
        "a/../../x",
        "a/..",
        "./a",
        "a//b",
        "a/",
        "a\0b",
        "x" * 256,
        "é" * 128,
        "a/" * 128 + "b",
        "d/" * 2100,
        STAGING,
        STAGING + "/x",
        STAGING.upper(),
        None,
        7,
        b"a",
        "\ud800",
    ],
)
def test_refused(name):
    with pytest.raises(NameRefusedError):
        split_name(name)


@pytest.mark.parametrize(
    "name", ["a", "a/b", "...", ".hidden", "a b", "~", "-rf", "C:\\x", "x" * 255, "\udcff", "a\nb"]
)
def test_accepted(name):
    assert "/".join(split_name(name)) == name


def test_two_spellings_of_one_byte_string_are_refused():
    # U+DCC3 U+DCA9 are the escapes of the two bytes of "é": as text another name, on disk the same one.
    with pytest.raises(NameRefusedError):
        split_name("\udcc3\udca9")


@given(st.text())
def test_visible_has_no_control_characters(name):
    assert visible(name).isprintable()


def f(name):
    return tuple(name.split("/")), False


def d(name):
    return tuple(name.split("/")), True


@pytest.mark.parametrize(
    "entries", [[f("a"), f("a")], [f("a"), f("a/b")], [f("a/b"), f("a")], [d("a"), f("a")]]
)
def test_clashes_everywhere(entries):
    for ignore_case in (False, True):
        with pytest.raises(NameRefusedError):
            refuse_clashes(entries, ignore_case)


@pytest.mark.parametrize(
    "entries", [[f("A"), f("a")], [f("A/x"), f("a/y")], [f("\u00e9"), f("e\u0301")], [f("A"), f("a/b")]]
)
def test_clashes_where_case_is_ignored(entries):
    refuse_clashes(entries, ignore_case=False)
    with pytest.raises(NameRefusedError):
        refuse_clashes(entries, ignore_case=True)


def test_a_tree_does_not_clash_with_itself():
    refuse_clashes([d("a"), d("a/b"), f("a/b/c"), f("a/b/d"), d("a/e")], ignore_case=True)
