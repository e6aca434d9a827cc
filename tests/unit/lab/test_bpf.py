"""The lab's BPF program: compiled once, kept, and read; hosts without it are told what is missing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softmrc.errors import MrcError
from softmrc.lab import bpf_build
from softmrc.lab.bpf_object import BpfObject


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(bpf_build, "supported", lambda: "")
    bpf_build._find.cache_clear()
    yield
    bpf_build._find.cache_clear()


def compiler(path: Path, name: str, body: str) -> None:
    path.mkdir(exist_ok=True)
    (path / name).write_text(f"#!/bin/sh\n{body}\n")
    (path / name).chmod(0o755)


needs_clang = pytest.mark.skipif(bpf_build._compiler() is None, reason="needs clang")


@needs_clang
def test_it_compiles_and_has_its_programs_and_maps() -> None:
    data = bpf_build._object_bytes()
    found = BpfObject(data)
    assert set(found._programs) == {"queue", "wire"}
    assert {k: v % 8 for k, v in found.map_bytes.items()} == dict.fromkeys(
        ("queue_set", "queue_now", "wire_set", "wire_now"), 0
    )
    assert all(set(p.uses.values()) <= set(found.map_bytes) for p in found._programs.values())


@needs_clang
def test_it_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = bpf_build._object_bytes()
    (kept,) = (tmp_path / "softmrc/bpf").iterdir()
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    assert bpf_build._object_bytes() == first == kept.read_bytes()


def test_without_clang_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    assert bpf_build.bpf_object() is None
    assert "apt install clang" in bpf_build.why_no_bpf()


def test_a_failing_compiler_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler(tmp_path / "bin", "clang-14", "echo 'no such target: bpf' >&2; exit 3")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert bpf_build.bpf_object() is None
    assert "clang-14 failed: no such target: bpf" in bpf_build.why_no_bpf()


def test_the_newest_of_several_compilers_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("clang-9", "clang-14", "clang-format-19", "clang-11"):
        compiler(tmp_path / "bin", name, "exit 1")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert bpf_build._compiler() == str(tmp_path / "bin/clang-14")


def test_a_kernel_without_bpf_is_named_before_anything_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bpf_build, "supported", lambda: "the kernel refuses BPF (Operation not permitted)")
    assert bpf_build.bpf_object() is None
    assert "not permitted" in bpf_build.why_no_bpf()


@given(st.binary(max_size=200))
def test_other_bytes_are_no_object(data: bytes) -> None:
    for text in (data, b"\x7fELF\x02\x01" + data, b"\x7fELF\x02\x01" + bytes(12) + b"\xf7\0" + data):
        with pytest.raises(MrcError):
            BpfObject(text)


@needs_clang
@given(st.data())
def test_a_cut_object_is_refused(draw: st.DataObject) -> None:
    """Its sections are listed at the end of the file."""
    data = _object()
    with pytest.raises(MrcError, match="no usable BPF object"):
        BpfObject(data[: draw.draw(st.integers(0, len(data) - 1))])


@needs_clang
@given(st.data())
def test_a_damaged_object_is_refused_or_what_is_read_can_be_loaded(draw: st.DataObject) -> None:
    data = bytearray(_object())
    at = draw.draw(st.integers(0, len(data) - 1))
    data[at] ^= draw.draw(st.integers(1, 255))
    try:
        found = BpfObject(bytes(data))
    except MrcError:
        return
    for program in found._programs.values():
        assert program.code in bytes(data)
        assert all(use + 16 <= len(program.code) for use in program.uses), "an instruction that loads a map"
    if _is_code(at):
        whole = BpfObject(_object())
        assert found.map_bytes == whole.map_bytes
        assert {n: p.uses for n, p in found._programs.items()} == {
            n: p.uses for n, p in whole._programs.items()
        }
        assert sum(p.code != whole._programs[n].code for n, p in found._programs.items()) == 1


def _is_code(at: int) -> bool:
    """Whether a byte of the object belongs to a program."""
    data = _object()
    begins = {data.index(p.code): len(p.code) for p in BpfObject(data)._programs.values()}
    return any(begin <= at < begin + size for begin, size in begins.items())


def _object() -> bytes:
    return bpf_build._object_bytes()
