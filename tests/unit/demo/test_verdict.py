"""Each promise of the demo can be broken, and then it is named."""

from __future__ import annotations

import pytest

from softmrc.demo.verdict import broken_promises, summary

GOOD = {
    "bytes": 10, "bytes_ok": True, "qp_errors": 0, "min_bin_after_cut_ratio": 0.8,
    "last_packet_on_cut_path_ms": 50.0, "recovered_share": 0.9, "assumed_bad": [{"plane": 1, "ev": 2}],
    "harmed": [{"plane": 1, "ev": 2}], "assumed_bad_exact": True, "lossy_path_lost": 1, "errors": [],
}  # fmt: skip


def test_all_kept():
    assert broken_promises(GOOD) == []
    assert summary(GOOD, GOOD, 7)["ok"]


@pytest.mark.parametrize(
    ("key", "value", "word"),
    [
        ("bytes_ok", False, "bytes"),
        ("qp_errors", 1, "connection"),
        ("min_bin_after_cut_ratio", 0.79, "bin"),
        ("last_packet_on_cut_path_ms", 50.1, "cut plane"),
        ("recovered_share", 0.89, "healed"),
        ("assumed_bad_exact", False, "assumed bad"),
        ("lossy_path_lost", 0, "lossy"),
    ],
)
def test_each_one_can_be_broken(key, value, word):
    found = broken_promises({**GOOD, key: value})
    assert len(found) == 1
    assert word in found[0]
    assert not summary({**GOOD, key: value}, GOOD, 7)["ok"]
