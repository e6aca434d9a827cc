"""Events become incidents, and incidents a report."""

from __future__ import annotations

import json

from softmrc.collectives.report import Report, merged
from softmrc.collectives.ridden import Ridden


def lost(qpn: int, plane: int, ev: int, at: float, state: str = "assumed_bad") -> dict[str, object]:
    return {
        "kind": "ev_state", "qpn": qpn, "port": plane, "ev": ev, "state": state, "reason": "timeout",
        "at_ns": int(at * 1e9), "dropped": 0,
    }  # fmt: skip


def back(qpn: int, plane: int, ev: int, at: float) -> dict[str, object]:
    return lost(qpn, plane, ev, at, "good")


def test_paths_of_a_plane_are_one_incident_until_all_are_back() -> None:
    ridden = Ridden()
    ridden.listen(7, 3, 4, {(1, 0): "t1-2"})
    ridden.on_event(lost(7, 1, 0, 10.0))
    ridden.on_event(lost(7, 1, 1, 10.1))
    ridden.on_event(back(7, 1, 0, 11.0))
    assert [i.seconds for i in ridden.incidents()] == [None]
    ridden.on_event(back(7, 1, 1, 12.0))
    (one,) = ridden.incidents()
    assert (one.kind, one.plane, one.ranks, one.paths) == ("paths", 1, (3,), 2)
    assert one.seconds is not None
    assert abs(one.seconds - 2.0) < 1e-6
    assert one.where == ("t1-2",)
    assert ridden.seconds_lost() == 0


def test_no_path_left_to_a_rank_is_an_outage_whose_time_is_lost() -> None:
    ridden = Ridden()
    ridden.listen(7, 3, 2, {})
    ridden.on_event(lost(7, 1, 0, 10.0))
    ridden.on_event(lost(7, 2, 1, 10.5))
    ridden.on_event(back(7, 2, 1, 12.0))
    ridden.on_event(back(7, 1, 0, 12.5))
    assert sorted(i.kind for i in ridden.incidents()) == ["outage", "paths", "paths"]
    assert abs(ridden.seconds_lost() - 1.5) < 1e-6


def test_a_stall_is_an_outage_until_the_last_queue_pair_gets_through() -> None:
    """Where everything is lost at once no path is marked."""
    ridden = Ridden()
    ridden.on_stall(3, 10.0)
    ridden.on_stall(3, 10.2)
    ridden.on_stall_over(3, 11.0)
    assert [i.seconds for i in ridden.incidents()] == [None]
    ridden.on_stall_over(3, 11.5)
    (one,) = ridden.incidents()
    assert (one.kind, one.ranks) == ("outage", (3,))
    assert abs(ridden.seconds_lost() - 1.5) < 1e-6


def test_a_plane_whose_link_is_down_is_called_so() -> None:
    ridden = Ridden()
    ridden.on_event({"kind": "port_local", "port": 2, "up": False, "at_ns": 10**9, "qpn": 0})
    ridden.on_event({"kind": "port_local", "port": 2, "up": True, "at_ns": 3 * 10**9, "qpn": 0})
    (one,) = ridden.incidents()
    assert (one.kind, one.plane, one.reasons) == ("plane", 2, ("link",))
    assert "plane 2: link down" in one.text()


def test_closed_queue_pairs_leave_no_incident_open() -> None:
    ridden = Ridden()
    ridden.listen(7, 3, 2, {})
    ridden.on_event(lost(7, 1, 0, 10.0))
    ridden.forget([7])
    assert all(i.seconds is not None for i in ridden.incidents())


def test_events_of_strangers_are_ignored() -> None:
    ridden = Ridden()
    ridden.on_event(lost(99, 1, 0, 10.0))
    assert ridden.incidents() == ()


def test_time_that_overlaps_counts_once() -> None:
    assert merged([(0, 2), (1, 3), (5, 6), (5.5, 5.7)]) == 4


def test_a_report_reads_well_and_is_json() -> None:
    ridden = Ridden()
    ridden.listen(7, 3, 8, {})
    ridden.on_event(lost(7, 1, 0, 10.0))
    report = Report(
        rank=0, size=4, planes=("10.1.0.5",), seconds=61.0, incidents=ridden.incidents(), bytes_sent=3_000_000,
        bytes_local=0, bytes_resent=8192, packets_resent=1, seconds_lost=0.25, collectives=200, failed=(),
    )  # fmt: skip
    assert "1 incident, 8.19 kB sent again of 3 MB, 0.250 s in which nothing got" in report.text()
    assert "plane 1: paths lost, 1 path to rank 3 (timeout): goes on" in report.text()
    assert json.loads(report.json())["incidents"][0]["ranks"] == [3]
