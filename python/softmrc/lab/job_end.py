"""One host of a synchronous job: `python -m softmrc.lab.job_end QUEUE_PAIRS KNOBS`. Lines of JSON in and out.

It listens, connects to its successor with some queue pairs, and in every step writes a share of the bytes over each and
waits until its own are acknowledged and those of its predecessor have arrived.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

from softmrc.endpoint import Connection, Endpoint
from softmrc.errors import MrcError

__all__ = ["main"]

_WAIT_S = 20.0
_MOST = 1 << 22


class _Member:
    def __init__(self, queue_pairs: int, knobs: dict[str, Any]) -> None:
        self.count = queue_pairs
        self.endpoint = Endpoint(**knobs)
        self.memory = bytearray(_MOST)
        self.listener = self.endpoint.listen(expose=self.memory)
        self.to: list[Connection] = []
        self.came: list[Connection] = []
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def _accept(self) -> None:
        while len(self.came) < self.count:
            self.came.append(self.listener.accept(_WAIT_S))

    def connect(self, addresses: list[str], port: int) -> dict[str, Any]:
        for _ in range(self.count):
            self.to.append(self.endpoint.connect_sync(addresses, port, timeout=_WAIT_S))
        self.regions = [c.register(bytearray(_MOST), writable=False) for c in self.to]
        self.windows = [c.remote_window_sync(_WAIT_S) for c in self.to]
        self._accepting.join(_WAIT_S)
        return {"connected": len(self.to), "accepted": len(self.came)}

    def step(self, size: int, timeout: float) -> dict[str, Any]:
        began = time.monotonic()
        each = max(1, size // self.count)
        writes = [
            c.write(r, w, length=each, imm=1)
            for c, r, w in zip(self.to, self.regions, self.windows, strict=True)
        ]
        end = began + timeout
        for write in writes:
            write.result(max(0.0, end - time.monotonic()))
        for conn in self.came:
            conn.recv_notification(max(0.0, end - time.monotonic()))
        return {"seconds": time.monotonic() - began}

    def look(self) -> dict[str, Any]:
        """Return counters of each queue pair that sends."""
        found = []
        for conn in self.to:
            stats = conn.stats()
            found.append({
                "lost": sum(p.lost for p in stats.paths), "rtx": stats.rtx,
                "timeouts": stats.counters["tx.timeouts"], "spurious": stats.counters["tx.spurious"],
                "bad": sum(p.state == "assumed_bad" and p.active for p in stats.paths),
                "active": [p.path for p in stats.paths if p.active], "state": stats.state,
            })  # fmt: skip
        return {"queue_pairs": found}


def _do(member: _Member, what: str, words: dict[str, Any]) -> dict[str, Any]:
    if what == "connect":
        return member.connect(**words)
    return member.step(**words) if what == "step" else member.look()


def main() -> None:
    """Do what the lines say until they end."""
    member = _Member(int(sys.argv[1]), json.loads(sys.argv[2]))
    print(json.dumps({"port": member.listener.port}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        what = asked.pop("do")
        try:
            answer = _do(member, what, asked)
        except (MrcError, TimeoutError) as error:
            answer = {"error": f"{type(error).__name__}: {error}" if str(error) else "not done in time"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
