"""The metrics of a real connection, and their bounds."""

from __future__ import annotations

import pytest

pytest.importorskip("prometheus_client", reason="metrics need the extra 'metrics'")

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from softmrc.endpoint import RemoteWindow
from softmrc.metrics.families import families
from softmrc.metrics.source import MAX_QPS, QpName, Source


class Collector:
    def __init__(self, readings):
        self.readings = readings

    def collect(self):
        return families(self.readings)


def scrape(*readings):
    registry = CollectorRegistry()
    registry.register(Collector(readings))
    return {f.name: f for f in text_string_to_metric_families(generate_latest(registry).decode())}


def value(found, name, **labels):
    samples = [s for s in found[name].samples if labels.items() <= s.labels.items()]
    assert samples, (name, labels)
    return sum(s.value for s in samples)


def test_a_connection_is_shown_as_it_is(pair, source):
    a, conn, _ = pair
    window: RemoteWindow = conn.remote_window_sync(20)
    conn.write(bytes(40_000), window).result(20)
    found = scrape(source.read())
    stats = conn.stats()
    qp = str(conn.qp_numbers[0])
    assert value(found, "softmrc_qp_tx_data", qp=qp) == stats.data_tx > 0
    assert value(found, "softmrc_qp_path_sent", qp=qp) == sum(p.sent for p in stats.paths) > 0
    assert value(found, "softmrc_qp_evs", qp=qp) == 8
    assert value(found, "softmrc_qp_evs", qp=qp, plane="2") == 4
    assert value(found, "softmrc_qp_ready", qp=qp) == 1
    assert value(found, "softmrc_qp_cwnd_bytes", qp=qp) > 0
    assert value(found, "softmrc_qp_info", qp=qp, role="data", peer=conn.peer) == 1
    assert value(found, "softmrc_queue_pairs", endpoint="a") == 2
    assert value(found, "softmrc_plane_up", plane="1") == 1
    assert value(found, "softmrc_plane_tx_bytes") > 40_000
    assert {s.labels["cause"] for s in found["softmrc_qp_retransmissions"].samples} >= {"timeout", "inferred"}
    assert a.name == "a"


def test_every_metric_has_a_help_text_and_counters_end_in_total(source):
    for family in scrape(source.read()).values():
        assert family.documentation.endswith("."), family.name
        assert family.name.startswith("softmrc_")
        if family.type == "counter":
            assert all(s.name.endswith("_total") for s in family.samples)


def test_transitions_of_ev_states_are_counted(pair, source):
    a, conn, _ = pair
    a.set_plane_up(2, False)
    a.set_plane_up(2, True)
    a.ctx.pump.run()
    found = scrape(source.read())
    down = value(found, "softmrc_ev_transitions", plane="2", state="assumed_bad", reason="port")
    assert down >= 4  # the EVs of the plane, on both queue pairs
    assert conn.planes == (1, 2)


def test_labels_are_bounded(pair, source):
    a, conn, _ = pair
    many = Source(a.ctx, "x" * 1000, lambda: [QpName(conn.qp_numbers[0], peer="p\x1b" * 500)] * (MAX_QPS + 7))
    reading = many.read()
    many.close()
    assert (len(reading.qps), reading.not_shown) == (MAX_QPS, 7)
    found = scrape(reading)
    assert value(found, "softmrc_queue_pairs_not_shown") == 7
    labels = found["softmrc_qp_info"].samples[0].labels
    assert len(labels["endpoint"]) == 200
    assert len(labels["peer"]) <= 120
    assert labels["peer"].isprintable()


def test_what_is_gone_is_not_shown(pair, source):
    a, _, _ = pair
    gone = Source(a.ctx, "a", lambda: [QpName(0xFFFFFE)])
    assert gone.read().qps == []
    gone.close()
    a.close()
    assert source.read() is None
    assert scrape() == {}


def test_a_device_of_the_caller_is_read_by_the_caller_only(pair):
    a, conn, _ = pair
    manual = Source(a.ctx, "a", lambda: [QpName(conn.qp_numbers[0])], manual=True)
    assert manual.read() is None
    manual.refresh()
    first = manual.read()
    conn.write(bytes(100), conn.remote_window_sync(20)).result(20)
    assert manual.read() is first
    manual.refresh()
    manual.close()
    assert manual.read().counters["data_tx"] > first.counters["data_tx"]
