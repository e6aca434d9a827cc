"""Names, units and help texts of the metrics, and how a reading fills them.

Labels are bounded: planes (31), EV states (4), reasons, causes and counters of the engine, and at most
`source.MAX_QPS` queue pairs of a device.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from softmrc.metrics.source import QpReading, Reading
from softmrc.text import visible

__all__ = ["families"]

_STATES = ("good", "skip", "assumed_bad", "denied")
_RTS = 3

# Counter of driver or engine: (metric, help).
_DEVICE = {
    "rx_datagrams": ("rx_datagrams", "UDP datagrams received."),
    "tx_datagrams": ("tx_datagrams", "UDP datagrams sent."),
    "rx_bytes": ("rx_bytes", "UDP payload bytes received."),
    "tx_bytes": ("tx_bytes", "UDP payload bytes sent."),
    "wakeups": ("wakeups", "Times the I/O thread looked for work in the kernel."),
    "endpoint_requests_rx": ("endpoint_requests", "Endpoint operations received (EV probes, port status)."),
    "endpoint_responses_tx": ("endpoint_responses", "Answers to endpoint operations."),
    "endpoint_refused": ("endpoint_refused", "Endpoint operations not answered because of a rate limit."),
    "events_dropped": ("events_dropped", "Events lost because nobody fetched them."),
}
# What is lost on this host, apart from the network's losses.
_LOCAL = {
    "local_rx_drops": "receive_buffer",
    "tx_would_block": "send_buffer",
    "tx_errors": "send_error",
    "tx_too_big": "too_big",
    "bad_source": "source_port",
    "impaired_lost": "impairment_queue",
}
_QP = {
    "tx.data": "Data packets sent, repeats included.",
    "tx.spurious": "Repeats that turned out to be unnecessary.",
    "tx.bad_ack": "Acknowledgements that make no sense and were ignored.",
    "tx.timeouts": "Times the acknowledgement timer ran out.",
    "tx.window_full": "Times sending stopped because the window of sequence numbers was full.",
    "tx.wimm_blocked": "Times sending stopped because too many immediates were in flight.",
    "tx.sacks_rx": "Selective acknowledgements received.",
    "tx.nacks_rx": "Negative acknowledgements received.",
    "tx.acks_rx": "Plain acknowledgements received.",
    "tx.unknown_ev": "Acknowledgements for an EV that is not in use any more.",
    "tx.probes": "Reliability probes sent.",
    "tx.probe_answers": "Answers to reliability probes.",
    "rx.data": "Data packets received.",
    "rx.bytes_placed": "Payload bytes placed in memory.",
    "rx.duplicates": "Data packets received more than once.",
    "rx.out_of_window": "Data packets beyond the receive window.",
    "rx.impossible": "Data packets that contradict earlier ones.",
    "rx.ce_seen": "Data packets with a congestion mark.",
    "rx.trimmed": "Trimmed data packets received.",
    "rx.sack_tx": "Selective acknowledgements sent.",
    "rx.nack_tx": "Negative acknowledgements sent.",
    "rx.messages_done": "Messages completely received.",
    "rx.wimm_done": "Immediates delivered.",
    "rx.rq_empty": "Times a write with immediate found no receive request.",
    "rx.access_errors": "Writes to memory that is not open for them.",
}
_PATH = {
    "sent": "Data packets sent on the paths of a plane.",
    "ecn": "Congestion marks reported for the paths of a plane.",
    "trimmed": "Trimmed packets reported for the paths of a plane.",
    "lost": "Losses found on the paths of a plane.",
    "probes": "Reliability probes sent on the paths of a plane.",
    "probe_acks": "Reliability probes answered on the paths of a plane.",
}


class _Book:
    """Families by name, in order of first use."""

    def __init__(self) -> None:
        self._all: dict[str, Any] = {}

    def counter(self, name: str, text: str, value: float, **labels: object) -> None:
        self._add(CounterMetricFamily, name, text, value, labels)

    def gauge(self, name: str, text: str, value: float, **labels: object) -> None:
        self._add(GaugeMetricFamily, name, text, value, labels)

    def _add(self, kind: Any, name: str, text: str, value: float, labels: dict[str, object]) -> None:
        family = self._all.get(name)
        if family is None:
            family = self._all[name] = kind(f"softmrc_{name}", text, labels=list(labels))
        family.add_metric([str(v) for v in labels.values()], value)

    def __iter__(self) -> Iterator[Metric]:
        return iter(self._all.values())


def families(readings: Iterable[Reading]) -> Iterator[Metric]:
    """Return everything to be shown of some devices."""
    book = _Book()
    for reading in readings:
        _device(book, reading)
        for plane in reading.planes:
            _plane(book, reading, plane)
        for qp in reading.qps:
            _qp(book, reading.device, qp)
    return iter(book)


def _device(book: _Book, reading: Reading) -> None:
    counters, at = reading.counters, {"endpoint": reading.device}
    for key, (name, text) in _DEVICE.items():
        if key in counters:
            book.counter(name, text, counters[key], **at)
    for key, cause in _LOCAL.items():
        if key in counters:
            book.counter(
                "local_drops", "Datagrams lost or held back on this host, not in the network.", counters[key],
                **at, cause=cause,
            )  # fmt: skip
    for reason, count in counters["drops"].items():
        book.counter(
            "drops", "Datagrams received and refused, by the first check they failed.", count,
            **at, reason=reason,
        )  # fmt: skip
    for (plane, state, reason), count in sorted(reading.transitions.items()):
        book.counter(
            "ev_transitions", "Changes of EV state, by the new state and what caused it.", count,
            **at, plane=plane, state=state, reason=reason,
        )  # fmt: skip
    shown = len(reading.qps) + reading.not_shown
    book.gauge("queue_pairs", "Open queue pairs.", shown, **at)
    book.gauge(
        "queue_pairs_not_shown", "Open queue pairs without metrics of their own.", reading.not_shown, **at
    )


def _plane(book: _Book, reading: Reading, plane: dict[str, Any]) -> None:
    number = plane["port"]
    at = {"endpoint": reading.device, "plane": number}
    counters = reading.counters
    for way, word in (("tx", "sent"), ("rx", "received")):
        book.counter(
            f"plane_{way}_bytes", f"Bytes of MRC packets {word} on a plane.",
            counters[f"port_{way}_bytes"].get(number, 0), **at,
        )  # fmt: skip
    book.gauge("plane_up", "1 while the plane can be used.", plane["up"], **at)
    book.gauge("plane_mtu_bytes", "MTU of the plane's link; 0: unknown.", plane["mtu"], **at)
    book.gauge("plane_receive_buffer_bytes", "Receive buffer the kernel granted.", plane["rcvbuf"], **at)
    book.gauge("plane_send_buffer_bytes", "Send buffer the kernel granted.", plane["sndbuf"], **at)


def _qp(book: _Book, device: str, qp: QpReading) -> None:
    at = {"endpoint": device, "qp": qp.name.qpn}
    stats = qp.stats
    book.gauge(
        "qp_info", "Always 1; says who is at the other end of a queue pair.", 1,
        **at, role=qp.name.role, peer=visible(qp.name.peer)[:120],
    )  # fmt: skip
    book.gauge("qp_ready", "1 while the queue pair can send.", stats["state"] == _RTS, **at)
    book.gauge("qp_cwnd_bytes", "Congestion window.", stats["cwnd"], **at)
    book.gauge("qp_inflight_bytes", "Bytes in flight.", stats["inflight"], **at)
    book.gauge("qp_srtt_seconds", "Smoothed round trip; 0: not measured yet.", stats["srtt_ns"] / 1e9, **at)
    book.gauge("qp_queued", "Work requests not yet completely sent.", stats["queued"], **at)
    book.gauge("qp_state_bytes", "Memory the queue pair takes.", stats["memory_bytes"], **at)
    for key, value in stats["counters"].items():
        side, _, what = key.partition(".")
        if what.startswith("rtx_"):
            book.counter(
                "qp_retransmissions", "Packets sent again, by what gave the cause.", value,
                **at, cause=what.removeprefix("rtx_"),
            )  # fmt: skip
        elif side == "cc":
            book.counter("qp_cc", "Decisions of congestion control, by branch.", value, **at, branch=what)
        else:
            book.counter(f"qp_{side}_{what}", _QP.get(key, f"Engine counter {key}."), value, **at)
    _paths(book, at, qp.paths)


def _paths(book: _Book, at: dict[str, Any], paths: list[dict[str, Any]]) -> None:
    planes = sorted({p["plane"] for p in paths})
    states = Counter((p["plane"], p["state"]) for p in paths)
    for plane in planes:
        for state in _STATES:
            count = states[(plane, state)]
            book.gauge("qp_evs", "EVs of a queue pair, by state.", count, **at, plane=plane, state=state)
        mine = [p for p in paths if p["plane"] == plane]
        for key, text in _PATH.items():
            book.counter(f"qp_path_{key}", text, sum(p[key] for p in mine), **at, plane=plane)
