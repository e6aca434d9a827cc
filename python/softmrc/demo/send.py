"""The sending process of the demonstration: repeats a file until the time is over, and reports its paths.

Talks JSON lines with its parent: one configuration on stdin, then `connected`, a start on stdin, then
`sample`, `event` and `result` on stdout.
"""

from __future__ import annotations

import json
import mmap
import resource
import sys
import threading
import time
from typing import Any

from softmrc.demo.plan import CHUNK, SLOTS
from softmrc.demo.receive import put, sampler
from softmrc.endpoint import Connection, Endpoint, PathStats, Plane, Region, Transfer
from softmrc.errors import MrcError

__all__ = ["main"]

EXTEND_S = 0.4


class _Watch:
    """Samples paths: states for the view, every change of state for the verdict."""

    def __init__(self, endpoint: Endpoint, connection: Connection, start: dict[str, Any]) -> None:
        self._endpoint = endpoint
        self._connection = connection
        self._cut_plane = start["cut_plane"]
        self._lossy = start.get("lossy")
        self._shown: int | None = start.get("shown_plane")
        self.ever_bad: dict[tuple[int, int], str] = {}
        """EVs that were ever ASSUMED_BAD, with the reason."""
        self.qp_errors = 0

    def sample(self) -> None:
        stats = self._connection.stats()
        now = time.monotonic_ns()
        self.take_events()
        for path in stats.paths:
            if path.state == "assumed_bad":
                self.ever_bad.setdefault((path.plane, path.ev), "sampled")
        last = int(self._endpoint.last_data_tx(self._cut_plane) * 1e9)
        states = "".join(p.state[0] for p in stats.paths)
        put(sample=[now, last, stats.data_tx, stats.rtx, states, stats.cwnd, int(stats.srtt * 1e6)])
        self._extend_lossy(now, stats.paths)

    def take_events(self) -> None:
        """Note every path that went bad, however short it was."""
        gone: dict[tuple[int, str], list[dict[str, Any]]] = {}
        for event in self._endpoint.events():
            if event["kind"] == "qp_error":
                self.qp_errors += 1
                put(event=[event["at_ns"], f"queue pair {event['qpn']} failed"])
            if event["kind"] != "ev_state":
                continue
            if event["state"] == "assumed_bad":
                self.ever_bad[(event["port"], event["ev"])] = event["reason"]
            gone.setdefault((event["port"], event["state"]), []).append(event)
        for (plane, state), events in gone.items():
            what = {"assumed_bad": "assumed bad", "good": "good again"}.get(state, state)
            evs = {e["ev"] for e in events}
            which = f"path {evs.pop():#x}" if len(evs) == 1 else f"{len(evs)} paths"
            why = {e["reason"] for e in events} - {"none"}
            put(
                event=[
                    events[0]["at_ns"],
                    f"plane {self._shown or plane}: {which} {what}"
                    + (f" ({', '.join(sorted(why))})" if why else ""),
                ]
            )

    def _extend_lossy(self, now: int, paths: tuple[PathStats, ...]) -> None:
        """A lossy path that lost nothing in its window by luck stays lossy until it does."""
        lossy = self._lossy
        if lossy is None or now / 1e9 < lossy["stop"] - 0.02:
            return
        lost = next((p.lost for p in paths if (p.plane, p.ev) == (lossy["plane"], lossy["ev"])), 0)
        if lost:
            self._lossy = None
            return
        lossy["start"], lossy["stop"] = lossy["stop"], now / 1e9 + EXTEND_S
        self._endpoint.impair([lossy])
        put(event=[now, f"path {lossy['ev']:#x} stays lossy: it has lost nothing so far"])


class _Source:
    """Writes chunk after chunk, never into a slot whose last chunk is not verified."""

    def __init__(self, connection: Connection, region: Region, lengths: list[int]) -> None:
        self._connection = connection
        self._region = region
        self._lengths = lengths
        self._window = connection.remote_window_sync(timeout=10.0)
        self._verified = 0
        self._moved = threading.Condition()
        self.failed: list[str] = []
        self.sent = 0
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            while True:
                verified = self._connection.recv_notification().imm
                with self._moved:
                    self._verified = max(self._verified, verified)
                    self._moved.notify_all()
        except MrcError as error:
            with self._moved:
                self.failed.append(str(error))
                self._moved.notify_all()

    def _done(self, transfer: Transfer) -> None:
        error = transfer.exception()
        if error is not None:
            with self._moved:
                self.failed.append(str(error))
                self._moved.notify_all()

    def _room(self, wait_s: float) -> bool:
        with self._moved:
            return self._moved.wait_for(
                lambda: bool(self.failed) or self.sent - self._verified < SLOTS, wait_s
            )

    def run(self, end_ns: int) -> None:
        """Send until the time is over."""
        while (left := end_ns - time.monotonic_ns()) > 0 and not self.failed:
            if not self._room(left / 1e9) or self.failed:
                continue
            index = self.sent % len(self._lengths)
            transfer = self._connection.write(
                self._region,
                self._window,
                offset=self.sent % SLOTS * CHUNK,
                imm=self.sent & 0xFFFFFFFF,
                length=self._lengths[index],
                local_offset=index * CHUNK,
            )
            transfer.add_done_callback(self._done)
            self.sent += 1

    def drain(self, seconds: float) -> None:
        """Tell how many chunks there are, and wait until all are verified."""
        self._connection.send_message(json.dumps({"chunks": self.sent}).encode())
        with self._moved:
            if not self._moved.wait_for(lambda: bool(self.failed) or self._verified >= self.sent, seconds):
                self.failed.append(f"{self.sent - self._verified} chunks were not verified in {seconds:g} s")


def main() -> None:
    """Run the sending end as told on stdin."""
    config = json.loads(sys.stdin.readline())
    planes = [
        Plane(address=a, evs=config["evs"], bits_per_second=config["rate_bps"]) for a in config["addresses"]
    ]
    with open(config["source"], "rb") as file:
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    with Endpoint(*planes, seed=config["seed"], name="demo sender", **config["knobs"]) as endpoint:
        connection = endpoint.connect_sync(
            config["addresses"][0], config["port"], expose=bytearray(8), token=config["token"]
        )
        region = connection.register(content, writable=False)
        source = _Source(connection, region, config["lengths"])
        put(connected=[[p.plane, p.ev] for p in connection.stats().paths])
        start = json.loads(sys.stdin.readline())
        endpoint.impair(start["rules"])
        ended = threading.Event()
        watch = _Watch(endpoint, connection, start)
        time.sleep(max(0.0, (start["start_ns"] - time.monotonic_ns()) / 1e9))
        thread = sampler(watch.sample, ended)
        try:
            source.run(start["end_ns"])
            source.drain(config["drain_s"])
        except MrcError as error:
            source.failed.append(str(error))
        ended.set()
        thread.join()
        watch.take_events()
        _report(endpoint, connection, source, watch)
        connection.close(timeout=2.0)


def _report(endpoint: Endpoint, connection: Connection, source: _Source, watch: _Watch) -> None:
    stats = connection.stats()
    usage = resource.getrusage(resource.RUSAGE_SELF)
    put(
        result={
            "chunks": source.sent,
            "failed": source.failed,
            "qp_errors": watch.qp_errors,
            "rtx": stats.rtx,
            "data_tx": stats.data_tx,
            "lost": [[p.plane, p.ev, p.lost] for p in stats.paths if p.lost],
            "ever_bad": [[plane, ev, why] for (plane, ev), why in sorted(watch.ever_bad.items())],
            "counters": {k: v for k, v in stats.counters.items() if v},
            "drops": {k: v for k, v in endpoint.stats().drops.items() if v},
            "cpu_s": usage.ru_utime + usage.ru_stime,
        }
    )


if __name__ == "__main__":
    main()
