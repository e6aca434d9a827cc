"""A trace in the form of qlog: the main schema's sequence of JSON records, with event types of our own.

It is made of changes of state and of counters read ten times a second. It does not show single packets.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from softmrc.metrics.recorder import Recorder
from softmrc.metrics.source import MAX_QPS, QpReading, Reading

__all__ = ["EVENT_SCHEMA", "QlogTrace"]

EVENT_SCHEMA = "urn:softmrc:qlog:events:mrc-00"
_SEPARATOR = "\x1e"
_NAMES = {
    "ev_state": "mrc:ev_state_updated",
    "plane": "mrc:plane_updated",
    "qp_error": "mrc:queue_pair_failed",
    "qp_drained": "mrc:queue_pair_drained",
    "cq_overrun": "mrc:completion_queue_overrun",
    "local_drops": "mrc:local_drops",
    "records_lost": "mrc:records_lost",
    "metrics": "mrc:metrics_updated",
    "end": "mrc:trace_ended",
}


class QlogTrace(Recorder):
    """Writes a trace of a device into a new file, which replaces an older one of the name."""

    period = 0.1
    max_qps = MAX_QPS

    _last: dict[int, dict[str, Any]]

    def _mode(self) -> str:
        return "w"

    def _begin(self) -> str:
        self._last = {}
        return _record(
            {
                "file_schema": "urn:ietf:params:qlog:file:sequential",
                "serialization_format": "application/qlog+json-seq",
                "title": f"softmrc {self._source.name}",
                "trace": {
                    "event_schemas": [EVENT_SCHEMA],
                    "vantage_point": {"name": self._source.name, "type": "unknown"},
                    "common_fields": {
                        "time_format": "relative_to_epoch",
                        "reference_time": {"clock_type": "system", "epoch": "1970-01-01T00:00:00.000Z"},
                    },
                },
            }
        )

    def _format(self, time_ns: int, kind: str, fields: dict[str, Any]) -> str:
        return _record({"time": time_ns / 1e6, "name": _NAMES[kind], "data": fields})

    def _sample(self, reading: Reading) -> list[tuple[str, dict[str, Any]]]:
        """Return the queue pairs that changed since the last look."""
        found = {qp.name.qpn: _metrics(qp) for qp in reading.qps}
        changed = [("metrics", data) for qpn, data in found.items() if self._last.get(qpn) != data]
        self._last = found
        return changed


def _record(data: dict[str, Any]) -> str:
    return _SEPARATOR + json.dumps(data, separators=(",", ":")) + "\n"


def _metrics(qp: QpReading) -> dict[str, Any]:
    """Names as in QUIC's recovery events where the meaning is the same; times in milliseconds."""
    stats, counters = qp.stats, qp.stats["counters"]
    states = Counter(p["state"] for p in qp.paths if p["active"])
    return {
        "qpn": qp.name.qpn,
        "role": qp.name.role,
        "smoothed_rtt": stats["srtt_ns"] / 1e6,
        "rtt_variance": stats["rttvar_ns"] / 1e6,
        "congestion_window": stats["cwnd"],
        "bytes_in_flight": stats["inflight"],
        "data_packets_sent": counters["tx.data"],
        "data_packets_received": counters["rx.data"],
        "bytes_placed": counters["rx.bytes_placed"],
        "retransmissions": sum(v for k, v in counters.items() if k.startswith("tx.rtx_")),
        "evs": dict(sorted(states.items())),
    }
