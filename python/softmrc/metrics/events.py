"""The event log: one JSON object a line, appended."""

from __future__ import annotations

import json
import os
from typing import Any

from softmrc.metrics.recorder import Recorder

__all__ = ["EventLog"]


class EventLog(Recorder):
    """Appends what happens on a device to a file, a line each.

    Every line has `time_ns` (nanoseconds since 1970), `kind` and the fields of that kind; docs/metrics.md lists
    them. Once a second the losses of this host are looked at.
    """

    def _mode(self) -> str:
        return "a"

    def _begin(self) -> str:
        planes = [
            {"plane": p["port"], "address": p["address"], "udp_port": p["udp_port"], "up": p["up"]}
            for p in self._planes
        ]
        return self._format(
            self.wall_ns(), "start", {"endpoint": self._source.name, "pid": os.getpid(), "planes": planes}
        )

    def _format(self, time_ns: int, kind: str, fields: dict[str, Any]) -> str:
        return json.dumps({"time_ns": time_ns, "kind": kind, **fields}, separators=(",", ":")) + "\n"
