"""A process that owns one endpoint and does what it is told, line by line, in JSON: `python agent.py`.

Request: {"do": name, "args": [...], "options": {...}}; answer: {"value": ...} or {"error": ..., "kind": ...}.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from softmrc import Connection, Endpoint, MrcError
from softmrc.transfer.addresses import local_address_for

_TICKS = os.sysconf("SC_CLK_TCK")


class Stream:
    """Writes back to back on a connection until told to stop, or until it fails."""

    def __init__(self, conn: Connection, size: int, depth: int) -> None:
        self.conn, self.size, self.depth = conn, size, depth
        self.done = 0
        self.error = ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        window = self.conn.remote_window_sync(20)
        region = self.conn.register(bytearray(os.urandom(self.size)), writable=False)
        open_ = []
        try:
            while not self._stop.is_set():
                while len(open_) < self.depth:
                    open_.append(self.conn.write(region, window))
                if open_[0].wait(0.1):
                    self.done += open_.pop(0).result(0)
            for transfer in open_:
                self.done += transfer.result(20)
        except (MrcError, TimeoutError) as error:
            self.error = str(error) or "not done in time"

    def stop(self) -> dict[str, Any]:
        self._stop.set()
        self._thread.join(25)
        return {"bytes": self.done, "error": self.error, "running": self._thread.is_alive()}


class Agent:
    """The operations; their names are those of the requests."""

    def __init__(self) -> None:
        self.ep: Endpoint | None = None
        self.conns: list[Connection] = []
        self.streams: list[Stream] = []
        self.memory = bytearray()
        self.read = 0
        self.said: list[str] = []
        handler = logging.Handler()
        handler.emit = lambda record: self.said.append(record.getMessage())  # type: ignore[method-assign]
        logging.getLogger("softmrc").addHandler(handler)
        logging.getLogger("softmrc").setLevel(logging.INFO)

    @property
    def _ep(self) -> Endpoint:
        assert self.ep is not None
        return self.ep

    def open(self, *planes: str, **knobs: Any) -> list[dict[str, Any]]:
        self.ep = Endpoint(*planes, **{"linger": 1.0, **knobs})
        return [dataclasses.asdict(p) for p in self.ep.planes]

    def planes(self) -> list[dict[str, Any]]:
        return [dataclasses.asdict(p) for p in self._ep.planes]

    def listen(self, size: int, hosts: list[str] | None = None) -> int:
        self.memory = bytearray(size)
        listener = self._ep.listen(hosts, expose=self.memory)
        accepting = threading.Thread(target=self._accept, args=(listener,), daemon=True)
        accepting.start()
        return listener.port

    def _accept(self, listener: Any) -> None:
        while True:
            try:
                conn = listener.accept(3600)
            except (MrcError, TimeoutError):
                return
            self.conns.append(conn)
            threading.Thread(target=self._read_messages, args=(conn,), daemon=True).start()

    def _read_messages(self, conn: Connection) -> None:
        with contextlib.suppress(MrcError):
            while True:
                conn.recv_message_sync()
                self.read += 1

    def connect(self, addresses: list[str], port: int) -> int:
        self.conns.append(self._ep.connect_sync(addresses, port, timeout=10))
        return len(self.conns) - 1

    def write(self, conn: int, size: int, timeout: float = 20.0) -> float:
        c = self.conns[conn]
        data = os.urandom(size)
        begin = time.monotonic()
        c.write(data, c.remote_window_sync(20)).result(timeout)
        return time.monotonic() - begin

    def messages(self, conn: int, count: int) -> int:
        c = self.conns[conn]
        sent = [c.send_message(b"m%06d" % i) for i in range(count)]
        return sum(m.result(20) > 0 for m in sent)

    def stream(self, conn: int, size: int = 256 << 10, depth: int = 8) -> int:
        self.streams.append(Stream(self.conns[conn], size, depth))
        return len(self.streams) - 1

    def moved(self, stream: int) -> dict[str, Any]:
        s = self.streams[stream]
        return {"time": time.monotonic(), "bytes": s.done, "error": s.error}

    def stop(self, stream: int) -> dict[str, Any]:
        return self.streams[stream].stop()

    def paths(self, conn: int) -> list[dict[str, Any]]:
        return [dataclasses.asdict(p) for p in self.conns[conn].stats().paths]

    def pmtu(self, conn: int) -> int:
        return self.conns[conn].pmtu

    def planes_in_use(self, conn: int) -> list[int]:
        return list(self.conns[conn].planes)

    def routes(self, conn: int) -> list[list[Any]]:
        return [[r.plane, r.address] for r in self.conns[conn].routes]

    def counters(self) -> dict[str, int]:
        return self._ep.stats().counters

    def plane_rx(self) -> dict[str, Any]:
        stats = self._ep.stats()
        return {"time": time.monotonic(), "bytes": {str(k): v for k, v in stats.plane_rx_bytes.items()}}

    def events(self) -> list[dict[str, Any]]:
        return [{k: str(v) for k, v in e.items()} for e in self._ep.events()]

    def local_address_for(self, host: str) -> list[str]:
        return list(local_address_for(host))

    def log(self) -> list[str]:
        return self.said

    def cpu_seconds(self) -> float:
        fields = Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS


def main() -> None:
    agent = Agent()
    for line in sys.stdin:
        request = json.loads(line)
        try:
            value = getattr(agent, request["do"])(*request["args"], **request["options"])
            answer = {"value": value}
        except Exception as error:
            answer = {"error": str(error), "kind": type(error).__name__}
        print(json.dumps(answer), flush=True)
    os._exit(0)  # the test is over: nobody lingers for a broken network


if __name__ == "__main__":
    main()
