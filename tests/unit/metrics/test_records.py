"""The event log and the trace: what they hold, and that a full disk harms only them."""

from __future__ import annotations

import json
import queue
import threading
import time

import pytest

from softmrc.errors import UsageError
from softmrc.metrics import EventLog, QlogTrace, Source
from softmrc.metrics.recorder import _named


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def trace(path):
    text = path.read_text()
    assert text.startswith("\x1e")
    return [json.loads(record) for record in text.split("\x1e")[1:]]


def test_the_log_tells_what_happened_and_when(pair, source, tmp_path):
    a, conn, _ = pair
    before = time.time_ns()
    with EventLog(tmp_path / "log", source):
        a.set_plane_up(2, False)
        a.ctx.pump.run()
    found = lines(tmp_path / "log")
    assert [found[0]["kind"], found[-1]["kind"]] == ["start", "end"]
    assert [p["address"] for p in found[0]["planes"]] == ["127.0.0.1", "127.0.0.2"]
    assert {"side": "local", "plane": 2, "up": False}.items() <= next(
        x for x in found if x["kind"] == "plane"
    ).items()
    mine = [x for x in found if x["kind"] == "ev_state" and x["qpn"] == conn.qp_numbers[0]]
    bad = [x for x in mine if x["reason"] == "port"]  # a busy machine may have others left for a moment
    assert {(x["plane"], x["state"]) for x in bad} == {(2, "assumed_bad")}
    assert {x["ev"] for x in bad} == set(a.planes[1].evs)
    assert all(before - 10**9 <= x["time_ns"] <= time.time_ns() + 10**9 for x in found)


def test_a_log_is_appended_to(source, tmp_path):
    for _ in range(2):
        with EventLog(tmp_path / "log", source):
            pass
    assert [x["kind"] for x in lines(tmp_path / "log")] == ["start", "end", "start", "end"]


def test_local_drops_are_noted_once(source, tmp_path, monkeypatch):
    monkeypatch.setattr(EventLog, "period", 0.01)
    original = source.ctx.stats
    monkeypatch.setattr(source.ctx, "stats", lambda: {**original(), "local_rx_drops": 7, "tx_errors": 0})
    seen = threading.Event()
    read = source.read
    reads = []

    def count(max_qps):
        reads.append(max_qps)
        if len(reads) > 3:
            seen.set()
        return read(max_qps)

    monkeypatch.setattr(source, "read", count)
    with EventLog(tmp_path / "log", source):
        assert seen.wait(10)
    drops = [x for x in lines(tmp_path / "log") if x["kind"] == "local_drops"]
    assert len(drops) == 1
    assert drops[0]["local_rx_drops"] == 7
    assert "tx_errors" not in drops[0]


def test_a_full_disk_ends_the_log_and_nothing_else(pair, source):
    _, conn, _ = pair
    said = queue.Queue()
    with EventLog("/dev/full", source, said.put) as log:
        assert "No space left" in said.get(timeout=10)
        assert "/dev/full" in log.failure
        source._on_event({"kind": "qp_drained", "qpn": 1, "at_ns": 0})
        conn.write(bytes(100), conn.remote_window_sync(20)).result(20)


def test_records_beyond_what_waits_are_counted(source, tmp_path, monkeypatch):
    monkeypatch.setattr("softmrc.metrics.recorder.MAX_WAITING", 5)
    go = threading.Event()
    monkeypatch.setattr(EventLog, "_begin", lambda _: "" * go.wait(10))
    with EventLog(tmp_path / "log", source):
        for n in range(9):
            source._on_event({"kind": "qp_drained", "qpn": n, "at_ns": 1})
        go.set()
    found = lines(tmp_path / "log")
    assert [x["qpn"] for x in found if x["kind"] == "qp_drained"] == [0, 1, 2, 3, 4]
    assert [x["count"] for x in found if x["kind"] == "records_lost"] == [4]


def test_a_file_that_cannot_be_opened_is_named(source, tmp_path):
    with pytest.raises(UsageError, match="none/log: No such file"):
        EventLog(tmp_path / "none" / "log", source)


def test_the_trace_is_a_sequence_with_the_schema_in_front(pair, source, tmp_path):
    a, conn, _ = pair
    with QlogTrace(tmp_path / "q", source):
        conn.write(bytes(30_000), conn.remote_window_sync(20)).result(20)
        a.set_plane_up(2, False)
        a.ctx.pump.run()
    head, *events = trace(tmp_path / "q")
    assert head["file_schema"] == "urn:ietf:params:qlog:file:sequential"
    assert head["serialization_format"] == "application/qlog+json-seq"
    assert head["trace"]["common_fields"]["time_format"] == "relative_to_epoch"
    assert all(set(e) == {"time", "name", "data"} for e in events)
    names = [e["name"] for e in events]
    assert {"mrc:ev_state_updated", "mrc:plane_updated", "mrc:metrics_updated"} <= set(names)
    assert names[-1] == "mrc:trace_ended"
    mine = [
        e["data"]
        for e in events
        if e["name"] == "mrc:metrics_updated" and e["data"]["qpn"] == conn.qp_numbers[0]
    ]
    assert mine[-1]["data_packets_sent"] == conn.stats().data_tx
    evs = mine[-1]["evs"]
    assert sum(evs.values()) == 8
    assert evs["assumed_bad"] >= 4, "those of the plane that is down, and any that a busy machine makes wait"
    assert evs["good"] > 0


def test_the_trace_shows_only_queue_pairs_that_changed(source, tmp_path, monkeypatch):
    one = source.read()
    monkeypatch.setattr(source, "read", lambda _: one)
    monkeypatch.setattr(QlogTrace, "period", 0.01)
    with QlogTrace(tmp_path / "q", source):
        time.sleep(0.1)  # several looks; only their number depends on it
    assert [e["name"] for e in trace(tmp_path / "q")[1:]].count("mrc:metrics_updated") == len(one.qps)


@pytest.mark.parametrize(
    ("event", "record"),
    [
        ({"kind": "qp_error", "qpn": 5, "status": 5, "dropped": 0},
         ("qp_error", {"qpn": 5, "status": "RETRY_EXC_ERR"})),
        ({"kind": "port_remote", "qpn": 5, "port": 2, "up": True, "dropped": 3},
         ("plane", {"side": "remote", "plane": 2, "up": True, "qpn": 5, "dropped": 3})),
        ({"kind": "cq_overrun", "cq": 9, "dropped": 0}, ("cq_overrun", {"cq": 9})),
        ({"kind": "endpoint_response"}, None),
    ],
)  # fmt: skip
def test_events_get_the_names_of_the_file(event, record):
    assert _named(event) == record


def test_a_closed_source_hears_nothing(pair, tmp_path):
    source = Source.of_endpoint(pair[0])
    with EventLog(tmp_path / "log", source):
        source.close()
        pair[0].set_plane_up(1, False)
        pair[0].ctx.pump.run()
    assert [x["kind"] for x in lines(tmp_path / "log")] == ["start", "end"]
