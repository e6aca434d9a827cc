"""One end of an incast: `python -m softmrc.lab.flood receive|send`. Lines of JSON on standard input and output.

The receiver listens; a sender writes back to back to it, as fast as it may.
Both answer every line they are told with their counters of that moment, so that whoever runs them can look at the same
time at all of them.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from typing import Any

from softmrc.endpoint import Connection, Endpoint, KnobArgs
from softmrc.errors import MrcError

__all__: list[str] = []

_MESSAGE = 256 << 10
_DEPTH = 32
_WAIT_S = 20.0


class _Receiver:
    """Memory that everybody writes to; nobody is told about arrivals, so nothing but the transport works."""

    def __init__(self, knobs: KnobArgs) -> None:
        self.endpoint = Endpoint(**knobs)
        self._listener = self.endpoint.listen(expose=bytearray(_MESSAGE))
        self._connections: list[Connection] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        return self._listener.port

    def _accept(self) -> None:
        with contextlib.suppress(MrcError, TimeoutError):
            while True:
                self._connections.append(self._listener.accept(3600))

    def look(self) -> dict[str, Any]:
        counters = _sum(c.stats().counters for c in list(self._connections))
        return {"counters": counters, "rx_drops": self.endpoint.stats().counters.get("local_rx_drops", 0)}


class _Sender:
    def __init__(self, knobs: KnobArgs, addresses: list[str], port: int) -> None:
        self.endpoint = Endpoint(**knobs)
        self._connection = self.endpoint.connect_sync(addresses, port, timeout=_WAIT_S)
        self._bad = 0
        self._why: dict[str, int] = {}
        self.done = 0
        self.error = ""

    def start(self) -> None:
        threading.Thread(target=self._write, daemon=True).start()

    def _write(self) -> None:
        window = self._connection.remote_window_sync(_WAIT_S)
        region = self._connection.register(bytearray(os.urandom(_MESSAGE)), writable=False)
        open_ = [self._connection.write(region, window) for _ in range(_DEPTH)]
        try:
            while True:
                self.done += open_.pop(0).result(3600)
                open_.append(self._connection.write(region, window))
        except MrcError as error:
            self.error = str(error)

    def look(self) -> dict[str, Any]:
        stats = self._connection.stats()
        for event in self.endpoint.events():
            if event["kind"] == "ev_state" and event["state"] == "assumed_bad":
                self._bad += 1
                self._why[event["reason"]] = self._why.get(event["reason"], 0) + 1
        return {
            "bytes": self.done, "error": self.error, "counters": stats.counters, "cwnd": stats.cwnd, "srtt": stats.srtt,
            "pmtu": self._connection.pmtu, "lost": sum(p.lost for p in stats.paths), "assumed_bad": self._bad,
            "why": self._why, "bad_now": sum(p.state == "assumed_bad" for p in stats.paths),
        }  # fmt: skip


def _sum(tables: Any) -> dict[str, int]:
    total: dict[str, int] = {}
    for table in tables:
        for name, value in table.items():
            total[name] = total.get(name, 0) + value
    return total


def _main() -> None:
    asked = json.loads(sys.stdin.readline())
    end: _Receiver | _Sender
    if sys.argv[1] == "receive":
        end = _Receiver(asked["knobs"])
        _say({"port": end.port, "at_ns": time.monotonic_ns()})
    else:
        end = _Sender(asked["knobs"], asked["addresses"], asked["port"])
        _say({"at_ns": time.monotonic_ns()})
        if sys.stdin.readline():
            end.start()
            _say({"at_ns": time.monotonic_ns()})
    for _ in sys.stdin:
        _say(end.look() | {"at_ns": time.monotonic_ns()})
    os._exit(0)  # a sender is in the middle of what nobody waits for


def _say(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    _main()
