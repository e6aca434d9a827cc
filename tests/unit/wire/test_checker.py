"""The vector checker itself: it must find what is wrong, name the field, and survive any file."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from softmrc.cli.vectors import vectors
from softmrc.vectors import VectorFileError, check_file, check_vectors
from softmrc.vectors.impl import IMPLEMENTATIONS, make

DATA = Path(__file__).parents[2] / "data" / "vectors.json"
VECTORS = {e["name"]: e for e in json.loads(DATA.read_text())["vectors"]}
APP = typer.Typer(add_completion=False)
APP.command()(vectors)


def _deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.fixture(params=IMPLEMENTATIONS)
def impl(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def fields_of(entry: dict[str, Any], impl: str) -> set[str]:
    return {d.field for r in check_vectors([entry], make(impl)) for d in r.differences}


def changed(name: str, *path: str, value: object) -> dict[str, Any]:
    entry = copy.deepcopy(VECTORS[name])
    at = entry
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return entry


@pytest.mark.parametrize(
    ("name", "path", "value", "field"),
    [
        ("meth_distinct", ("fields", "msn"), 1, "msn"),
        ("seth_cc_distinct", ("fields", "CC_STATE", "ooo_count"), 1, "CC_STATE.ooo_count"),
        ("ib_write_only", ("fields", "RETH", "va"), "0x1", "RETH.va"),
        ("pkt_ipv6_write_only_stev", ("fields", "udp", "src_port"), 1, "udp.src_port"),
        ("pkt_ipv6_write_only_stev", ("derived", "nominal_pktsize"), 91, "derived.nominal_pktsize"),
        ("pkt_srv6_usid_write_only", ("fields", "outer", "dst"), "::1", "outer.dst"),
        ("seth_cc_negative_offsets", ("derived", "ack_psn"), "0x000001", "derived.ack_psn"),
        ("calc_nscc_params", ("derived", "eta"), 2470.0, "derived.eta"),
        ("calc_nscc_decrease", ("derived", "cwnd"), 360002, "derived.cwnd"),
        ("ev_stev_split", ("derived", "flow_label"), 0x11234, "derived.flow_label"),
    ],
)
def test_a_wrong_field_is_named(
    impl: str, name: str, path: tuple[str, ...], value: object, field: str
) -> None:
    assert fields_of(VECTORS[name], impl) == set()
    assert field in fields_of(changed(name, *path, value=value), impl)


def test_wrong_bytes_are_found(impl: str) -> None:
    text = VECTORS["reth_distinct"]["hex"]
    assert fields_of(changed("reth_distinct", "hex", value="ff" + text[2:]), impl) == {"hex", "va"}


def test_a_header_too_many_and_an_absent_default_are_found(impl: str) -> None:
    entry = copy.deepcopy(VECTORS["ib_write_first_ts"])
    del entry["fields"]["TSETH"]
    assert fields_of(entry, impl)
    assert "BTH.rtx" in fields_of(changed("ib_write_only", "fields", "BTH", "rtx", value=1), impl)


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ({"name": "x", "layer": "QUIC", "hex": "00"}, "unknown layer 'QUIC'"),
        ({"name": "x"}, "unknown layer ''"),
        (7, "not an object"),
        ({"layer": "METH", "fields": {"color": 1}, "hex": "00000000"}, "unknown field 'color'"),
        ({"layer": "METH", "fields": {"msn": 65536}, "hex": "00000000"}, "does not fit"),
        ({"layer": "METH", "fields": {"msn": -1}, "hex": "00000000"}, "does not fit"),
        ({"layer": "METH", "fields": {"msn": "one"}, "hex": "00000000"}, "does not fit"),
        ({"layer": "METH", "fields": [], "hex": "00000000"}, "'fields' is not an object"),
        ({"layer": "METH", "hex": "zz"}, "not hexadecimal"),
        ({"layer": "METH", "hex": "00"}, "wrong length"),
        ({"layer": "IB", "fields": {}, "hex": "00"}, "missing 'BTH'"),
        ({"layer": "IPV6", "fields": {"ib": {}}, "hex": "00"}, "missing"),
        ({"layer": "IPV6", "fields": {"ipv6": {}, "udp": {}, "ib": 1}, "hex": "00"}, "'ib' is not an object"),
        ({"layer": "METH"}, "nothing to check"),
        ({"layer": "CALC", "fields": {"x": 1}, "derived": {"y": 1}}, "no formula"),
        ({"layer": "METH", "hex": "00000000", "expect": {"result": "maybe"}}, "unknown value 'maybe'"),
        ({"layer": "IB", "hex": "00", "expect": {"result": "ok"}, "context": {"qp": 1}}, ""),
        ({"layer": "USID_SHIFT", "fields": {}, "hex": "00"}, "missing"),
        ({"layer": "METH", "hex": "00000000", "derived": {}}, "'derived' is empty"),
        ({"layer": "METH", "hex": "00000000", "expect": {}}, "'expect' is empty"),
        ({"layer": "METH", "hex": "00000000", "opcode": "0xD1"}, "opcode: expected 209"),
        ({"layer": "METH", "hex": "00000000", "opcode": True}, "opcode"),
        ({"layer": "CALC", "opcode": 1, "fields": {"x": 1}, "derived": {"y": 1}}, "opcode"),
        ({"layer": "METH", "hex": "00000000", "note": _deep(2000)}, "nested too deeply"),
    ],
)
def test_unusable_entries_are_errors_not_crashes(impl: str, entry: Any, text: str) -> None:
    (result,) = check_vectors([entry], make(impl))
    assert not result.ok
    assert text in " ".join(str(d) for d in result.differences)


@pytest.mark.parametrize(
    "name",
    ["ib_write_only", "pkt_ipv6_write_only_stev", "pkt_srv6_usid_write_only", "aeth_ack", "bth_write_only"],
)
def test_the_opcode_beside_the_fields_must_be_theirs(impl: str, name: str) -> None:
    entry = VECTORS.get(name) or next(e for e in VECTORS.values() if e["layer"] == name.split("_")[0].upper())
    assert fields_of(entry, impl) == set()
    assert fields_of({**entry, "opcode": "0xD9"}, impl) == {"opcode"}


@pytest.mark.parametrize("tolerance", [1e30, True, -1, "1", None, 0.5, 0.011, 3.0e4])
def test_a_tolerance_that_tolerates_everything_is_refused(impl: str, tolerance: object) -> None:
    found = fields_of({**VECTORS["calc_nscc_decrease"], "tolerance": tolerance}, impl)
    assert found == {"entry"}


@pytest.mark.parametrize("tolerance", [0.01, 0.001, 1, 2, 3600])
def test_a_tolerance_within_a_hundredth_is_accepted(impl: str, tolerance: float) -> None:
    assert fields_of({**VECTORS["calc_nscc_decrease"], "tolerance": tolerance}, impl) == set()


def test_a_verdict_that_differs_is_named(impl: str) -> None:
    entry = {"layer": "IB", "hex": "0a" + "00" * 11, "expect": {"result": "drop", "reason": "truncated"}}
    assert fields_of(entry, impl) == {"expect.reason"}
    entry["expect"] = {"result": "ok"}
    assert fields_of(entry, impl)


def test_unknown_keys_are_noted(impl: str) -> None:
    (result,) = check_vectors([VECTORS["meth_distinct"] | {"colour": 1}], make(impl))
    assert result.ok
    assert "colour" in result.warnings[0]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"vectors": 3}',
        '{"meta": 1, "vectors": []}',
        "\x00",
        "[" * 99999,
        '{"meta": {}, "vectors": [1]}',
        '{"meta": {"count": 2}, "vectors": [1]}',
        '{"meta": {"count": true}, "vectors": [1]}',
        '{"meta": {"dscp": 1}, "vectors": [1]}',
    ],
)
def test_files_that_are_no_vector_files(tmp_path: Path, impl: str, text: str) -> None:
    file = tmp_path / "v.json"
    file.write_text(text)
    with pytest.raises(VectorFileError):
        check_file(file, impl)
    assert CliRunner().invoke(APP, [str(file), "--impl", impl]).exit_code == 2


def test_deep_nesting_is_named(tmp_path: Path, impl: str) -> None:
    file = tmp_path / "v.json"
    file.write_text("[" * 99999)
    with pytest.raises(VectorFileError, match="nested too deeply"):
        check_file(file, impl)


def test_command(tmp_path: Path, impl: str) -> None:
    done = CliRunner().invoke(APP, [str(DATA), "--impl", impl])
    assert done.exit_code == 0
    assert done.output.strip() == "83 of 83"
    bad = tmp_path / "bad.json"
    bad.write_text(json.dumps({"vectors": [changed("meth_distinct", "fields", "msn", value=1)]}))
    done = CliRunner().invoke(APP, [str(bad), "--impl", impl, "--json"])
    assert done.exit_code == 1
    report = json.loads(done.output)
    assert (report["total"], report["passed"]) == (1, 0)
    assert {d["field"] for d in report["failures"][0]["differences"]} == {"hex", "msn"}
    assert CliRunner().invoke(APP, [str(tmp_path / "none.json")]).exit_code == 2
    assert CliRunner().invoke(APP, [str(DATA), "--impl", "other"]).exit_code == 2


def test_no_vectors_is_no_success(tmp_path: Path, impl: str) -> None:
    file = tmp_path / "empty.json"
    file.write_text('{"vectors": []}')
    assert not check_file(file, impl).ok
