"""What must not be in the repository: paths of one machine, downloads from code hosts, copies that differ."""

from __future__ import annotations

import re
from pathlib import Path

from tests.layers.repo import ROOT, tracked

TEXT = {".h", ".cc", ".py", ".md", ".txt", ".toml", ".yaml", ".sh", ".cmake", ".json", ".ref", ""}
HOME_PATH = re.compile(r"(?<![\w./-])/(?:root|work|Users)/\w")
DOWNLOAD = re.compile(r"FetchContent_Declare|git submodule add|git clone|curl -|wget ")


def texts() -> list[tuple[str, str]]:
    out = []
    for file in tracked():
        if file.suffix not in TEXT or "corpus" in file.parts or file == Path(__file__).resolve():
            continue
        out.append((str(file.relative_to(ROOT)), file.read_text(errors="replace")))
    return out


def test_no_path_of_a_machine() -> None:
    assert [f"{n}: {m.group()}" for n, t in texts() for m in HOME_PATH.finditer(t)] == []


def test_no_download_from_code_hosts() -> None:
    assert [
        f"{n}: {m.group()}" for n, t in texts() for m in DOWNLOAD.finditer(t) if n != "CONTRIBUTING.md"
    ] == []


def test_shipped_vectors_equal_those_of_the_tests() -> None:
    for name in ("vectors.json", "malformed.json"):
        shipped = ROOT / "python/softmrc/vectors/data" / name
        assert shipped.read_bytes() == (ROOT / "tests/data" / name).read_bytes(), name


def test_source_files_say_what_they_decide() -> None:
    mute = []
    for file in tracked():
        if file.suffix not in {".h", ".cc"} or "tests" in file.parts:
            continue
        pair = file.with_suffix(".h")
        if file.suffix == ".cc" and pair.exists():
            continue  # its header speaks
        first = file.read_text().lstrip()[:2]
        if first != "//":
            mute.append(str(file.relative_to(ROOT)))
    assert mute == []
