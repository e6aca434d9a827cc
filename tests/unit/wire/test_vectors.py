"""Every shipped vector is a test of the engine and of the model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from softmrc.vectors import check_vectors, shipped
from softmrc.vectors.impl import IMPLEMENTATIONS, make
from softmrc.vectors.make_malformed import build

DATA = Path(__file__).parents[2] / "data"
FILES = ("vectors.json", "malformed.json")
DOCUMENTS: dict[str, dict[str, Any]] = {f: json.loads((DATA / f).read_text()) for f in FILES}
ENTRIES = [pytest.param(f, e, id=e["name"]) for f in FILES for e in DOCUMENTS[f]["vectors"]]


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
@pytest.mark.parametrize(("file", "entry"), ENTRIES)
def test_vector(impl: str, file: str, entry: dict[str, Any]) -> None:
    (result,) = check_vectors([entry], make(impl), DOCUMENTS[file]["meta"])
    assert [str(d) for d in result.differences] == []
    assert result.warnings == []


def test_number_of_vectors() -> None:
    assert len(DOCUMENTS["vectors.json"]["vectors"]) == DOCUMENTS["vectors.json"]["meta"]["count"] == 83
    names = [e["name"] for e in DOCUMENTS["malformed.json"]["vectors"]]
    assert len(names) == len(set(names)) == DOCUMENTS["malformed.json"]["meta"]["count"]


@pytest.mark.parametrize("file", FILES)
def test_package_ships_the_same_files(file: str) -> None:
    assert shipped(file).read_bytes() == (DATA / file).read_bytes()


def test_malformed_file_is_what_its_script_writes() -> None:
    assert json.loads(json.dumps(build())) == DOCUMENTS["malformed.json"]


def test_malformed_file_names_every_reason() -> None:
    expects = [e["expect"] for e in DOCUMENTS["malformed.json"]["vectors"]]
    drops = {e["reason"] for e in expects if e["result"] == "drop"}
    assert drops == {
        *("truncated", "bad_length", "bad_icrc", "bad_tver", "bad_opcode", "bad_qpn", "bad_pkey", "bad_peer"),
        *("trimmed_control", "fragment", "not_mrc_port", "not_udp"),
    }
    assert {e["nack_reason"] for e in expects if e["result"] == "nack"} == {0x01, 0x02, 0x0B}
    assert {e["reason"] for e in expects if e["result"] == "error"} == {"E2BIG", "EINVAL"}
