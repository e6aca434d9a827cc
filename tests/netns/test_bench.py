"""Rows of `bench transport` in namespaces: they run, give figures of both sides, and leave nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from softmrc.bench import RowResult, Settings, run_rows
from softmrc.bench.tcp import missing_iperf3, missing_mptcp
from softmrc.bench.transport import choose
from softmrc.bench.yard import missing_af_packet


def measured(*names: str) -> list[RowResult]:
    results: list[RowResult] = []
    run_rows(choose(names), Settings(repeat=1, seconds=0.5, quick=True), results.append)
    assert list(Path("/run/netns").glob(f"smrc{os.getpid()}-*")) == []
    assert [r.name for r in results] == list(names)
    for result in results:
        assert "error" not in result.detail, result.detail
        assert result.value is not None
        assert result.value >= 0
    return results


def test_one_path_beside_tcp_and_bare_sockets() -> None:
    if why := missing_iperf3():
        pytest.skip(why)
    tcp, bare = measured("one_path_1500", "raw_share_hot")
    for row in (tcp, bare):
        assert row.peer["ours"] > 0
        assert row.peer["median"] > 0
        (pair,) = row.detail["pairs"]
        assert pair["ratio"] == row.value
        assert len(pair["core_ns"]) == 3
    assert tcp.detail["site"] == "veth 1500"


def test_frames_beside_datagrams() -> None:
    if why := missing_af_packet():
        pytest.skip(why)
    (row,) = measured("raw_af_packet")
    assert row.peer["ours"] > 0
    assert row.target is None


def test_a_cut_beside_mptcp() -> None:
    if why := missing_mptcp():
        pytest.skip(why)
    (row,) = measured("cut_one_of_four")
    (pair,) = row.detail["pairs"]
    shares = pair["more"]["ours"]["shares"]
    assert len(shares) >= 10
    assert min(shares) == pytest.approx(row.value, abs=0.001)
    # Three paths go on: most of the time nearly all of what they carry arrives.
    assert pair["more"]["ours"]["mean_share"] > 0.5


def test_idle_connections() -> None:
    (row,) = measured("idle_cpu")
    assert set(row.detail) >= {"client_cores", "server_cores"}
