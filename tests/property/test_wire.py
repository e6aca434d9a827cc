"""Every header and packet survives decode and encode, in the engine and in the model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softmrc.vectors.impl import IMPLEMENTATIONS, make
from softmrc.wire.layout import HEADERS
from softmrc.wire.packet import BTH_SIZE, headers_of

LAYERS = {n: h.size for n, h in HEADERS.items() if n not in ("SETH", "CC_STATE")} | {"SETH+CC_STATE": 36}
OPCODES = st.sampled_from([*range(0xC6, 0xCC), 0xD1, 0xD8, 0xD9, 0xDC, 0xDD, 0xDE])


@st.composite
def ib_packets(draw: st.DrawFn) -> bytes:
    """BTH .. pad with any field values that a receiver keeps."""
    bth = bytearray(draw(st.binary(min_size=BTH_SIZE, max_size=BTH_SIZE)))
    bth[0] = draw(OPCODES)
    names = headers_of(HEADERS["BTH"].decode(bytes(bth)))
    assert names is not None
    size = sum(HEADERS[n].size for n in names)
    payload = draw(st.binary(max_size=40)) if bth[0] < 0xCC else b""
    bth[1] = bth[1] & 0xC0 | (-len(payload) % 4) << 4
    return bytes(bth) + draw(st.binary(min_size=size, max_size=size)) + payload + bytes(-len(payload) % 4)


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
@pytest.mark.parametrize("layer", LAYERS)
@given(data=st.data())
def test_headers_round_trip(impl: str, layer: str, data: st.DataObject) -> None:
    codec = make(impl)
    fields = codec.decode(layer, data.draw(st.binary(min_size=LAYERS[layer], max_size=LAYERS[layer])))
    wire = codec.encode(layer, fields)
    assert codec.decode(layer, wire) == fields
    assert codec.encode(layer, codec.decode(layer, wire)) == wire


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
@given(packet=ib_packets())
def test_packets_round_trip(impl: str, packet: bytes) -> None:
    codec = make(impl)
    fields = codec.decode("IB", packet)
    assert codec.decode("IB", codec.encode("IB", fields)) == fields


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
@given(
    packet=ib_packets(),
    ev=st.integers(0, 0xFFFFFFFF),
    dscp=st.sampled_from([0, 4, 8, 46]),
    ecn=st.integers(0, 3),
    outer=st.sampled_from([None, "plain", "srh"]),
    v4=st.booleans(),
)
def test_frames_round_trip(
    impl: str, packet: bytes, ev: int, dscp: int, ecn: int, outer: str | None, v4: bool
) -> None:
    codec = make(impl)
    ib = codec.decode("IB", packet)
    if v4:
        layer = "IPV4"
        fields = {"ipv4": {"src": "10.0.0.1", "dst": "10.0.0.2", "dscp": dscp, "ecn": ecn}}
    else:
        layer = "IPV6"
        fields = {"ipv6": {"src": "fd00::1", "dst": "fd00::2", "dscp": dscp, "ecn": ecn}}
    frame_fields = fields | {"udp": {}, "ev": ev, "ib": ib}
    if outer and not v4:
        layer = "SRV6"
        frame_fields = {"outer": {"src": "fd00::1", "dst": "fcbb:bb00:1:2::"}, "inner": frame_fields}
        if outer == "srh":
            frame_fields["srh"] = {"segment": "fcbb:bb00:1:2::"}
    read = codec.decode(layer, codec.encode(layer, frame_fields))
    inner = read.get("inner", read)
    assert inner["ib"] == ib
    assert inner["ev"] == (ev & 0xFFFF if v4 else ev)
    assert codec.encode(layer, read) == codec.encode(layer, frame_fields)
    assert ("srh" in read) == (layer == "SRV6" and outer == "srh")
