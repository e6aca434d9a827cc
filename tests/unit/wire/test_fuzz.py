"""Any bytes may be thrown at the decoder: each is kept, or dropped for a reason the model agrees with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from softmrc import _core
from softmrc.wire import DEFAULT_CONTEXT, classify_layer

DATA = Path(__file__).parents[2] / "data"
PACKETS = 1_000_000


def corpus() -> list[bytes]:
    frames = []
    for file in ("vectors.json", "malformed.json"):
        for entry in json.loads((DATA / file).read_text())["vectors"]:
            if entry["layer"] in ("IPV4", "IPV6", "SRV6", "IPV6_TRIMMED"):
                frames.append(bytes.fromhex(entry["hex"]))
    return frames


def test_a_million_packets_each_with_a_reason() -> None:
    counts = _core.wire_fuzz(1, PACKETS, corpus())
    assert sum(counts.values()) == PACKETS
    reasons = {"truncated", "bad_length", "bad_icrc", "bad_tver", "bad_opcode", "trimmed_control", "fragment"}
    assert reasons < set(counts)
    assert counts["none"] > PACKETS // 10


def test_a_seed_is_a_whole_run() -> None:
    assert _core.wire_fuzz(7, 5000, corpus()) == _core.wire_fuzz(7, 5000, corpus())
    assert _core.wire_fuzz(7, 5000) != _core.wire_fuzz(8, 5000)


@pytest.mark.parametrize("frame", corpus(), ids=range(len(corpus())))
def test_every_cut_of_every_frame_has_the_same_verdict(frame: bytes) -> None:
    for n in range(len(frame) + 1):
        want = classify_layer("IPV6", frame[:n], DEFAULT_CONTEXT)
        assert _core.wire_classify("IPV6", frame[:n], DEFAULT_CONTEXT) == want
