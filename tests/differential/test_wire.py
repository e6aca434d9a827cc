"""The engine's codec and the model agree on generated, mutated and random bytes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softmrc.errors import WireError
from softmrc.vectors.impl import Codec, Core, Oracle
from softmrc.wire import DEFAULT_CONTEXT
from softmrc.wire.layout import HEADERS, Fields

DATA = Path(__file__).parents[1] / "data"
LAYERS = [*(n for n in HEADERS if n not in ("SETH", "CC_STATE")), "SETH+CC_STATE", "IB"]
FRAMES = ["IPV4", "IPV6", "SRV6", "IPV6_TRIMMED"]
CORPUS = [
    (e["layer"], bytes.fromhex(e["hex"]))
    for file in ("vectors.json", "malformed.json")
    for e in json.loads((DATA / file).read_text())["vectors"]
    if e["layer"] in (*LAYERS, *FRAMES)
]
CORE, ORACLE = Core(), Oracle()


def decoded(codec: Codec, layer: str, data: bytes) -> Fields | str:
    try:
        return codec.decode(layer, data)
    except WireError as e:
        return str(e)


def agree(layer: str, data: bytes) -> None:
    want = decoded(ORACLE, layer, data)
    assert decoded(CORE, layer, data) == want
    verdict = ORACLE.classify(layer, data, DEFAULT_CONTEXT)
    assert CORE.classify(layer, data, DEFAULT_CONTEXT) == verdict
    if isinstance(want, str):
        return
    facts = ORACLE.derive(layer, {}, data)
    assert CORE.derive(layer, {}, data) == facts
    # An SRH with more than one segment or an IPv4 header with options cannot be written again.
    if layer not in FRAMES:
        assert CORE.encode(layer, want) == ORACLE.encode(layer, want)


@pytest.mark.parametrize("layer", [*LAYERS, *FRAMES])
@given(data=st.binary(max_size=160))
def test_random_bytes(layer: str, data: bytes) -> None:
    agree(layer, data)


@given(
    entry=st.sampled_from(CORPUS),
    flips=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 7)), max_size=3),
    keep=st.none() | st.integers(0, 200),
    tail=st.binary(max_size=6),
)
def test_mutated_packets(
    entry: tuple[str, bytes], flips: list[tuple[int, int]], keep: int | None, tail: bytes
) -> None:
    layer, data = entry
    changed = bytearray(data[:keep] + tail)
    for at, bit in flips:
        if changed:
            changed[at % len(changed)] ^= 1 << bit
    agree(layer, bytes(changed))


@given(qpn=st.sampled_from([2, 18, 33, 99]), p_key=st.integers(0, 0xFFFF), own=st.integers(0, 0xFFFF))
def test_partition_keys(qpn: int, p_key: int, own: int) -> None:
    data = ORACLE.encode("IB", {"BTH": {"opcode": 0xDE, "dqp": qpn, "p_key": p_key}, "PETH": {}})
    context = {"qps": [{"qpn": 18, "p_key": own}]}
    assert CORE.classify("IB", data, context) == ORACLE.classify("IB", data, context)


@given(
    psn=st.integers(0, 0xFFFFFF), cack=st.integers(0, 0xFFFFFF), mpr=st.integers(1, 32), near=st.booleans()
)
def test_receive_window(psn: int, cack: int, mpr: int, near: bool) -> None:
    psn = (cack + psn % 8192) % (1 << 24) if near else psn
    ib = {"BTH": {"opcode": 0xCA, "dqp": 18, "psn": psn}, "METH": {}, "RETH": {}}
    context = {"qps": [{"qpn": 18, "cack_psn": cack, "mpr": mpr}]}
    data = ORACLE.encode("IB", ib)
    assert CORE.classify("IB", data, context) == ORACLE.classify("IB", data, context)
