"""The receiving process of the demonstration: places, verifies, counts.

Talks JSON lines with its parent: one configuration on stdin, then `ready`, `sample` and `result` on stdout.
Every chunk is hashed in place, copied into the output file and wiped, so that bytes which were not sent again
cannot pass.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import resource
import sys
import threading
import time
from typing import Any

from softmrc.demo.plan import CHUNK, SLOTS
from softmrc.endpoint import Connection, Endpoint, Plane
from softmrc.errors import MrcError, PeerClosedError

__all__ = ["SAMPLE_S", "main", "put", "sampler"]

SAMPLE_S = 0.02
ACK_EVERY = 4


def put(**members: Any) -> None:
    """Print one JSON line for the parent."""
    sys.stdout.write(json.dumps(members) + "\n")
    sys.stdout.flush()


def sampler(once: Any, ended: threading.Event) -> threading.Thread:
    """Call `once` every 20 ms until `ended`; the beat does not drift."""

    def loop() -> None:
        due = time.monotonic()
        while not ended.is_set():
            try:
                once()
            except MrcError:
                return
            due = max(due + SAMPLE_S, time.monotonic() - SAMPLE_S)
            ended.wait(max(0.0, due - time.monotonic()))

    thread = threading.Thread(target=loop, daemon=True)
    thread.start()
    return thread


class _Sink:
    """Checks chunks in order and keeps the file they make."""

    def __init__(self, landing: mmap.mmap, config: dict[str, Any]) -> None:
        self._landing = landing
        self._expected = [bytes.fromhex(h) for h in config["hashes"]]
        self._lengths = config["lengths"]
        self._file = os.open(config["out"], os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        self.chunks = 0
        self.bytes_ok = 0
        self.wrong: list[int] = []

    def take(self, imm: int) -> None:
        sequence = self.chunks
        index = sequence % len(self._expected)
        start = sequence % SLOTS * CHUNK
        view = memoryview(self._landing)[start : start + self._lengths[index]]
        in_order = imm == sequence & 0xFFFFFFFF
        if in_order and hashlib.sha256(view).digest() == self._expected[index]:
            self.bytes_ok += len(view)
        else:
            self.wrong.append(sequence)
        os.pwrite(self._file, view, index * CHUNK)
        view[:] = bytes(len(view))
        self.chunks += 1

    def digest(self) -> tuple[str, int]:
        """Return SHA-256 and length of the output file."""
        whole = hashlib.sha256()
        at = 0
        while piece := os.pread(self._file, 1 << 20, at):
            whole.update(piece)
            at += len(piece)
        return whole.hexdigest(), at


def _serve(connection: Connection, endpoint: Endpoint, sink: _Sink) -> None:
    ended = threading.Event()
    back = _Back(connection)

    def sample() -> None:
        placed = connection.stats().counters["rx.bytes_placed"]
        put(sample=[time.monotonic_ns(), placed, endpoint.stats().plane_rx_bytes])

    thread = sampler(sample, ended)
    total: int | None = None
    try:
        while total is None or sink.chunks < total:
            try:
                sink.take(connection.recv_notification(timeout=0.1).imm)
            except (TimeoutError, PeerClosedError) as idle:
                try:
                    total = json.loads(connection.recv_message_sync(timeout=0.0))["chunks"]
                except TimeoutError:
                    if isinstance(idle, PeerClosedError):
                        raise idle from None
                    continue
            if sink.chunks % ACK_EVERY == 0 or total is not None:
                back.tell(sink.chunks, sink.chunks == total)
    finally:
        ended.set()
        thread.join()


class _Back:
    """Tells the sender how much is verified: writes with immediate on the same queue pairs, no messages.

    Messages have queue pairs of their own, which send too little to notice quickly that a plane is gone.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._region = connection.register(bytearray(8), writable=False)
        self._window = connection.remote_window_sync(timeout=10.0)

    def tell(self, verified: int, last: bool) -> None:
        """Send the count; the sender leaves as soon as it knows that everything is verified."""
        try:
            self._connection.write(self._region, self._window, imm=verified & 0xFFFFFFFF)
        except PeerClosedError:
            if not last:
                raise


def main() -> None:
    """Run the receiving end as told on stdin."""
    config = json.loads(sys.stdin.readline())
    landing = mmap.mmap(-1, CHUNK * SLOTS)
    planes = [
        Plane(address=a, evs=config["evs"], bits_per_second=config["rate_bps"]) for a in config["addresses"]
    ]
    with Endpoint(*planes, seed=config["seed"], name="demo receiver", **config["knobs"]) as endpoint:
        sink = _Sink(landing, config)
        # The listener owns the window it exposes: it stays open while the peer writes.
        with endpoint.listen(config["addresses"][0], 0, expose=landing, token=config["token"]) as listener:
            put(ready=listener.port)
            connection = listener.accept(timeout=20.0)
            endpoint.impair(json.loads(sys.stdin.readline())["rules"])
            error = None
            try:
                _serve(connection, endpoint, sink)
            except MrcError as problem:
                error = str(problem)
            _report(connection, endpoint, sink, error)
            connection.close(timeout=2.0)


def _report(connection: Connection, endpoint: Endpoint, sink: _Sink, error: str | None) -> None:
    digest, length = sink.digest()
    usage = resource.getrusage(resource.RUSAGE_SELF)
    put(
        result={
            "chunks": sink.chunks,
            "bytes_ok": sink.bytes_ok,
            "wrong": sink.wrong[:8],
            "sha256": digest,
            "length": length,
            "error": error,
            "cpu_s": usage.ru_utime + usage.ru_stime,
            "drops": {k: v for k, v in endpoint.stats().drops.items() if v},
        }
    )


if __name__ == "__main__":
    main()
