"""Each C++ room includes only rooms it may import, and CMake declares the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.layers.repo import CORE, ROOT

# Direct and indirect imports that a room may use. Tests of any room may use testing/check.h on top.
ALLOWED: dict[str, set[str]] = {
    "base": set(),
    "wire": {"base"},
    "ev": {"base", "wire"},
    "cc": {"base"},
    "reliability": {"base", "wire"},
    "impair": {"base", "wire"},
    "engine": {"base", "wire", "ev", "cc", "reliability"},
    "net": {"base", "wire", "ev", "cc", "reliability", "impair", "engine"},
    "perf": {"base", "wire", "ev", "cc", "reliability", "impair", "engine", "net"},
    "sim": {"base", "wire", "ev", "cc", "reliability", "engine"},
    "testing": {"base", "wire", "ev", "cc", "reliability", "impair", "engine"},
    "softswitch": {"base", "wire", "impair"},
    "coll": {"base", "wire", "ev", "cc", "reliability", "engine"},
    "yard": set(),
}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
# System headers that sans-IO rooms have no use for.
IMPURE = re.compile(
    r"^(sys/.*|arpa/.*|netinet/.*|linux/.*|net/if.*|unistd\.h|poll\.h|pthread\.h|time\.h|ctime|chrono|thread|mutex|"
    r"shared_mutex|condition_variable|future|atomic|random|iostream|fstream|cstdio|stdio\.h|unordered_map|"
    r"unordered_set|filesystem|Python\.h|nanobind/.*)$"
)
# (file, header) -> why it may.
IMPURE_EXCEPTIONS = {
    ("core/ev/policy.cc", "mutex"): "the registry is shared by all endpoints of a process",
    ("core/cc/registry.cc", "mutex"): "the registry is shared by all endpoints of a process",
    ("core/engine/endpoint_impl.h", "unordered_set"): "asked for membership, never iterated",
}
PURE = ("base", "wire", "ev", "cc", "reliability", "impair", "engine", "sim", "coll")


def rooms() -> list[str]:
    return sorted(p.name for p in CORE.iterdir() if p.is_dir())


def sources(room: str) -> list[Path]:
    return sorted(p for p in (CORE / room).rglob("*") if p.suffix in {".h", ".cc"})


def includes(file: Path) -> list[tuple[str, str]]:
    return INCLUDE.findall(file.read_text())


def test_every_room_is_known() -> None:
    assert set(rooms()) == set(ALLOWED)


@pytest.mark.parametrize("room", sorted(ALLOWED))
def test_includes_follow_the_direction(room: str) -> None:
    wrong = []
    for file in sources(room):
        may = ALLOWED[room] | {room}
        is_test = "tests" in file.relative_to(CORE).parts
        for _, target in includes(file):
            top = target.split("/")[0]
            for_tests = {"testing/check.h", "testing/pair.h"} if "engine" in may else {"testing/check.h"}
            if top in ALLOWED and top not in may and not (is_test and target in for_tests):
                wrong.append(f"{file.relative_to(ROOT)} includes {target}")
    assert wrong == []


@pytest.mark.parametrize("room", PURE)
def test_pure_rooms_include_no_environment(room: str) -> None:
    wrong = [
        f"{file.relative_to(ROOT)} includes {target}"
        for file in sources(room)
        if "tests" not in file.relative_to(CORE).parts
        for _, target in includes(file)
        if IMPURE.match(target) and (str(file.relative_to(ROOT)), target) not in IMPURE_EXCEPTIONS
    ]
    assert wrong == []


def test_only_bindings_include_nanobind() -> None:
    wrong = [
        str(file.relative_to(ROOT))
        for room in rooms()
        for file in sources(room)
        for _, target in includes(file)
        if target.startswith("nanobind") or target == "Python.h"
    ]
    assert wrong == []


@pytest.mark.parametrize("room", sorted(ALLOWED))
def test_cmake_declares_allowed_dependencies(room: str) -> None:
    text = (CORE / room / "CMakeLists.txt").read_text()
    match = re.search(rf"mrc_room\(\s*{room}\b(.*?)\)", text, re.DOTALL)
    assert match is not None
    deps = re.search(r"\bDEPS\b(.*?)(?:\bSOURCES\b|\bTESTS\b|$)", match.group(1), re.DOTALL)
    named = set(deps.group(1).split()) if deps else set()
    assert named <= ALLOWED[room]


def test_the_table_has_no_cycles() -> None:
    for room, may in ALLOWED.items():
        for other in may:
            assert ALLOWED[other] <= may, f"{room} may import {other} but not all that {other} imports"
            assert room not in ALLOWED[other]
