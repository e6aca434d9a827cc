"""The catalogue, the verdicts, and the run through them; no traffic."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.unit.bench.test_meter import recorded

from softmrc.bench import ROWS, Outcome, Row, RowResult, Settings, run_rows
from softmrc.bench.bench import Bench
from softmrc.bench.place import Place
from softmrc.bench.rows_many import _capacity_gbps, _Course, _first_full, _on_links
from softmrc.bench.settings import BenchError
from softmrc.bench.site import LOOPBACK, Sites
from softmrc.bench.transport import choose, skip_reason
from softmrc.errors import UsageError


def row(run: Callable[[Bench], Outcome], **more: object) -> Row:
    return Row(**{"name": "r", "about": "a / b", "target": 1.0, "loopback": True, "run": run, **more})  # type: ignore[arg-type]


def test_names_are_those_of_the_table() -> None:
    wanted = """one_path_9000 one_path_1500 both_ways raw_share_hot raw_share_cold raw_io_uring raw_af_packet srv6_3hops
        per_packet_spray small_writes cpu_per_gb four_paths_9000 four_paths_1500 cut_one_of_four
        link_down_near link_down_far two_paths loss_0_1 loss_1 latency_sleep latency_spin idle_cpu
        qp_scale busy_host"""
    assert [r.name for r in ROWS] == wanted.split()
    assert {r.name: (r.target, r.at_most) for r in ROWS}["latency_sleep"] == (1.5, True)
    assert [r.name for r in choose(["loss_1", "both_ways"])] == ["both_ways", "loss_1"]
    assert choose([]) == list(ROWS)
    with pytest.raises(UsageError, match="one_path_9000"):
        choose(["one_path"])


def test_verdicts() -> None:
    least, most = row(lambda _: Outcome(value=0)), row(lambda _: Outcome(value=0), at_most=True)
    assert RowResult.of(least, Outcome(value=1.0)).ok is True
    assert RowResult.of(least, Outcome(value=0.99)).ok is False
    assert RowResult.of(most, Outcome(value=1.0)).ok is True
    assert RowResult.of(most, Outcome(value=1.01)).ok is False
    broken = RowResult.of(least, Outcome(value=2.0, also={"and that": False}, detail={"x": 1}))
    assert broken.ok is False
    assert broken.detail == {"x": 1, "also": {"and that": False}}
    assert set(broken.to_json()) >= {"name", "value", "target", "ok", "peer", "detail"}
    assert RowResult.skipped(least, "needs root").to_json()["ok"] is None
    assert most.meets(1.0)
    assert RowResult.of(most, Outcome(value=0)).sense == "<="
    informs = RowResult.of(row(lambda _: Outcome(value=0), target=None), Outcome(value=0.2))
    assert (informs.ok, informs.value, informs.to_json()["target"]) == (None, 0.2, None)


def test_missing_things_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("softmrc.bench.transport.missing_namespaces", lambda: ("needs root",))
    monkeypatch.setattr("softmrc.bench.transport.missing_iperf3", lambda: "needs iperf3")
    monkeypatch.setattr("softmrc.bench.transport.missing_mptcp", lambda: "needs mptcpize")
    by_name = {r.name: skip_reason(r, Place(0, 0, False)) for r in ROWS}
    assert by_name["one_path_9000"] == "needs iperf3"
    assert by_name["one_path_1500"] == "needs root, needs iperf3"
    assert by_name["four_paths_9000"] == "needs root, needs iperf3, needs mptcpize"
    assert by_name["latency_spin"] == "needs two cores"
    assert by_name["raw_share_hot"] is None
    monkeypatch.setattr("softmrc.bench.transport.missing_io_uring", lambda: "io_uring: forbidden")
    assert skip_reason(choose(["raw_io_uring"])[0], Place(0, 0, False)) == "io_uring: forbidden"
    monkeypatch.setattr("softmrc.bench.transport.missing_af_packet", lambda: "AF_PACKET: forbidden")
    assert skip_reason(choose(["raw_af_packet"])[0], Place(0, 0, False)) == "needs root, AF_PACKET: forbidden"


def test_every_row_gives_a_result_and_networks_are_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: Bench) -> Outcome:
        raise BenchError("iperf3: ended with status 1")

    closed = []
    monkeypatch.setattr(Sites, "close", lambda _: closed.append(True))
    monkeypatch.setattr("softmrc.bench.transport.missing_namespaces", lambda: ("needs root",))
    rows = [
        row(lambda _: Outcome(value=3.0), name="good"),
        row(broken, name="broken"),
        row(lambda _: Outcome(value=1.0), name="skipped", loopback=False),
    ]
    results: list[RowResult] = []
    run_rows(rows, Settings(), results.append)
    assert [(r.name, r.ok) for r in results] == [("good", True), ("broken", False), ("skipped", None)]
    assert results[1].detail == {"error": "iperf3: ended with status 1"}
    assert closed == [True]

    def interrupted(_: Bench) -> Outcome:
        raise KeyboardInterrupt

    results.clear()
    with pytest.raises(KeyboardInterrupt):
        run_rows([rows[0], row(interrupted), rows[0]], Settings(), results.append)
    assert [r.name for r in results] == ["good"]
    assert closed == [True, True]


def test_paths_carry_what_headers_leave() -> None:
    assert _capacity_gbps(1500) == pytest.approx(2 * 1408 / 1514)
    assert _capacity_gbps(9000) == pytest.approx(2 * 8896 / 9002)


def test_a_course_is_read_from_the_record() -> None:
    """Four links of 100 B/s; the second is cut from 4 s to 6 s, and one bin of the others sags."""
    times = [i / 10 for i in range(101)]
    meter = recorded(times, times, [0] * 101)

    def count(t: float, link: int) -> float:
        if link == 2:
            return 100 * (min(t, 4) + max(0.0, t - 6.3))
        return 100 * t - (5 if link == 1 and t >= 5.05 else 0)

    meter._bytes = [{f"b{i}": count(t, i) for i in range(1, 5)} for t in times]  # type: ignore[misc]
    course = _Course(lambda *_: None, [2], warm=4, black=2, after=4, cut_at=4.0, back_at=6.0)
    links = tuple(f"fd00:{i}::2" for i in range(1, 5))
    site = type(LOOPBACK)("four", None, None, links, links, fabric=object())  # type: ignore[arg-type]
    sample = course.read(site, _on_links(meter))
    assert sample.value == pytest.approx(25 / 30, abs=1e-3)
    assert sample.more["bins_below_0.9"] == 1
    assert sample.more["full_again_ms"] == 300
    nothing = recorded(times, times, [0] * 101)
    with pytest.raises(BenchError, match="nothing was moving"):
        course.read(site, _on_links(nothing))


def test_full_means_that_it_stays() -> None:
    assert _first_full([0, 10, 0, 0, 10, 10, 10, 10, 10], 10) == 4
    assert _first_full([0, 0], 10) is None
    assert _first_full([], 10) is None
