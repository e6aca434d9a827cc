"""One run of the demonstration.

Starts the two processes, tells them when things fail, and collects what they report.
"""

from __future__ import annotations

import hashlib
import json
import os
import queue
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import IO, Any

from softmrc.demo.plan import CHUNK, LOSS_PPM, RATE_BPS, Plan
from softmrc.errors import MrcError

__all__ = ["KNOBS", "DemoError", "Run", "Source", "execute"]

KNOBS: dict[str, Any] = {
    "hold_time": 20.0,
    "base_rtt": 0.008,
    "pmtu": 4096,
    "min_ack_timeout": 0.1,
    "reorder_min_time": 0.006,
}
"""A busy two-core host lets a process wait for milliseconds: less patience would blame paths for it."""
_LEAD_S = 0.3
_DRAIN_S = 10.0


class DemoError(MrcError):
    """The demonstration itself could not run; says nothing about its promises."""


@dataclass
class Source:
    """The file that is moved, as a whole number of chunks is made of it."""

    path: str
    size: int
    sha256: str
    hashes: list[str]
    lengths: list[int]

    @classmethod
    def of(cls, path: str) -> Source:
        """Hash a file.

        Raises:
            DemoError: it is empty.
        """
        whole = hashlib.sha256()
        hashes: list[str] = []
        lengths: list[int] = []
        with open(path, "rb") as file:
            while piece := file.read(CHUNK):
                whole.update(piece)
                hashes.append(hashlib.sha256(piece).hexdigest())
                lengths.append(len(piece))
        if not lengths:
            raise DemoError(f"{path} is empty; give a file with something in it")
        return cls(path, sum(lengths), whole.hexdigest(), hashes, lengths)

    def digest_of(self, length: int) -> str:
        """Return SHA-256 of the first `length` bytes."""
        if length == self.size:
            return self.sha256
        whole = hashlib.sha256()
        with open(self.path, "rb") as file:
            while length and (piece := file.read(min(length, 1 << 20))):
                whole.update(piece)
                length -= len(piece)
        return whole.hexdigest()


@dataclass
class Run:
    """Everything measured in one run. Times are CLOCK_MONOTONIC nanoseconds."""

    plan: Plan
    pinned: bool
    start_ns: int = 0
    paths: list[tuple[int, int]] = field(default_factory=list)
    """Plane and wire tag of every EV, in the order of the state letters."""
    placed: list[tuple[int, float]] = field(default_factory=list)
    """Bytes placed at the receiver."""
    plane_rx: dict[int, list[tuple[int, float]]] = field(default_factory=dict)
    """Bytes received, by plane."""
    last_cut_tx: list[tuple[int, float]] = field(default_factory=list)
    states: list[tuple[int, str]] = field(default_factory=list)
    rtx: list[tuple[int, float]] = field(default_factory=list)
    cwnd: int = 0
    srtt_us: int = 0
    events: list[tuple[int, str]] = field(default_factory=list)
    sent: dict[str, Any] = field(default_factory=dict)
    received: dict[str, Any] = field(default_factory=dict)
    lossy: tuple[int, int] | None = None
    black: tuple[int, int] | None = None
    wall_s: float = 0.0

    @property
    def planes(self) -> int:
        """Planes of this run: one when it is pinned."""
        return 1 if self.pinned else self.plan.planes

    @property
    def cut_plane(self) -> int:
        """Number of the plane that is cut, as the endpoints of this run count; see `shown`."""
        return 1 if self.pinned else self.plan.harm.cut_plane

    def shown(self, plane: int) -> int:
        """Return the number people are told: that of the plan, also when the run has only this plane."""
        return self.plan.harm.cut_plane if self.pinned else plane

    def at_ns(self, seconds: float) -> int:
        """Return the absolute time of a moment of the plan."""
        return self.start_ns + int(seconds * 1e9)

    @property
    def harmed(self) -> list[tuple[int, int]]:
        """Every EV that something was done to, sorted."""
        hit = {p for p in self.paths if p[0] == self.cut_plane}
        return sorted(hit | {p for p in (self.lossy, self.black) if p is not None})


class _Process:
    """A worker and its JSON lines."""

    def __init__(self, module: str, lines: queue.Queue[tuple[str, dict[str, Any]]], name: str) -> None:
        self._name = name
        self._lines = lines
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by end()
        self._process = subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            start_new_session=True,
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        stdout: IO[str] = self._process.stdout  # type: ignore[assignment]
        for line in stdout:
            self._lines.put((self._name, json.loads(line)))
        self._lines.put((self._name, {"exit": self._process.wait()}))

    def tell(self, **members: Any) -> None:
        stdin: IO[str] = self._process.stdin  # type: ignore[assignment]
        try:
            stdin.write(json.dumps(members) + "\n")
            stdin.flush()
        except BrokenPipeError:
            raise DemoError(self.why()) from None

    def why(self) -> str:
        """Return the last words of the process."""
        self._errors.seek(0)
        text = self._errors.read()
        words = [
            line
            for line in text.splitlines()
            if ": " in line and not line.startswith((" ", "nanobind", "Traceback"))
        ]
        if os.environ.get("SOFTMRC_DEBUG"):
            sys.stderr.write(text)
        return f"the {self._name} process ended early: {words[-1] if words else 'no message'}"

    def end(self) -> None:
        if self._process.poll() is None:
            try:
                self._process.wait(timeout=3.0)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._errors.close()


def execute(plan: Plan, source: Source, out: str, pinned: bool, watch: Callable[[Run], object]) -> Run:
    """Do one run.

    Args:
        plan: what fails when.
        source: what is moved.
        out: file the receiver writes.
        pinned: only one path, on the plane that is cut.
        watch: called about every 20 ms with what is known so far.

    Raises:
        DemoError: a process did not start or died.
    """
    run = Run(plan, pinned)
    lines: queue.Queue[tuple[str, dict[str, Any]]] = queue.Queue()
    processes: dict[str, _Process] = {}
    began = time.monotonic()
    try:
        processes["receiver"] = _Process("softmrc.demo.receive", lines, "receiver")
        processes["sender"] = _Process("softmrc.demo.send", lines, "sender")
        _set_up(run, processes, lines, source, out)
        _collect(run, processes, lines, watch)
    finally:
        for process in processes.values():
            process.end()
    run.wall_s = time.monotonic() - began
    return run


def _wait_for(
    key: str, processes: dict[str, _Process], lines: queue.Queue[tuple[str, dict[str, Any]]]
) -> Any:
    end = time.monotonic() + 30.0
    while True:
        try:
            name, line = lines.get(timeout=max(0.0, end - time.monotonic()))
        except queue.Empty:
            raise DemoError(f"no '{key}' from the two processes in 30 s") from None
        if key in line:
            return line[key]
        if "exit" in line:
            raise DemoError(processes[name].why())


def _set_up(
    run: Run,
    processes: dict[str, _Process],
    lines: queue.Queue[tuple[str, dict[str, Any]]],
    source: Source,
    out: str,
) -> None:
    plan = run.plan
    common = {
        "addresses": plan.pinned_addresses() if run.pinned else plan.addresses,
        "evs": 1 if run.pinned else plan.evs,
        "rate_bps": RATE_BPS,
        "token": secrets.token_hex(16),
        "lengths": source.lengths,
        "knobs": KNOBS,
    }
    processes["receiver"].tell(**common, seed=plan.seed * 2 + 1, hashes=source.hashes, out=out)
    port = _wait_for("ready", processes, lines)
    path = os.path.abspath(source.path)
    processes["sender"].tell(**common, seed=plan.seed * 2, port=port, source=path, drain_s=_DRAIN_S)
    run.paths = [(plane, ev) for plane, ev in _wait_for("connected", processes, lines)]
    run.start_ns = time.monotonic_ns() + int(_LEAD_S * 1e9)
    _tell_failures(run, processes)


def _tell_failures(run: Run, processes: dict[str, _Process]) -> None:
    """Both ends cut the plane; the lossy and the black path are the sender's outgoing ones."""
    plan, times, harm = run.plan, run.plan.times, run.plan.harm

    def at(seconds: float) -> float:
        return run.at_ns(seconds) / 1e9

    cut: dict[str, Any] = {"plane": run.cut_plane, "down": True}
    cut |= {"start": at(times.cut), "stop": at(times.heal)}
    rules = [cut]
    lossy: dict[str, Any] | None = None
    if not run.pinned:
        by_plane = {p: [path for path in run.paths if path[0] == p] for p in range(1, plan.planes + 1)}
        run.lossy = by_plane[harm.lossy_plane][harm.lossy_index]
        run.black = by_plane[harm.black_plane][harm.black_index]
        lossy = {
            "plane": run.lossy[0], "ev": run.lossy[1], "direction": "tx", "drop": LOSS_PPM / 1e6,
            "start": at(times.lossy), "stop": at(times.lossy_end),
        }  # fmt: skip
        black = {
            "plane": run.black[0], "ev": run.black[1], "direction": "tx", "down": True,
            "start": at(times.black), "stop": at(times.black_end),
        }  # fmt: skip
        rules += [lossy, black]
    run.events += [(run.at_ns(t), what) for t, what in _script(run)]
    processes["receiver"].tell(rules=[cut])
    processes["sender"].tell(
        rules=[*rules, *plan.links(run.planes)],
        shown_plane=plan.harm.cut_plane if run.pinned else None,
        start_ns=run.start_ns,
        end_ns=run.at_ns(times.end),
        cut_plane=run.cut_plane,
        lossy=lossy,
    )


def _script(run: Run) -> list[tuple[float, str]]:
    times = run.plan.times
    cut = run.plan.harm.cut_plane
    script = [
        (times.cut, f"plane {cut} ({run.plan.addresses[cut - 1]}) is cut, both directions, silently"),
        (times.heal, f"plane {cut} is healed"),
    ]
    if run.lossy is not None and run.black is not None:
        script += [
            (times.lossy, f"path {run.lossy[1]:#x} of plane {run.lossy[0]} loses {LOSS_PPM / 1e4:g} %"),
            (times.black, f"path {run.black[1]:#x} of plane {run.black[0]} goes black"),
            (times.black_end, f"path {run.black[1]:#x} is healed"),
            (times.lossy_end, f"path {run.lossy[1]:#x} is healed"),
        ]
    return script


def _collect(
    run: Run,
    processes: dict[str, _Process],
    lines: queue.Queue[tuple[str, dict[str, Any]]],
    watch: Callable[[Run], object],
) -> None:
    end = time.monotonic() + _LEAD_S + run.plan.times.end + _DRAIN_S + 15.0
    while not (run.sent and run.received):
        try:
            name, line = lines.get(timeout=max(0.0, end - time.monotonic()))
        except queue.Empty:
            raise DemoError("the two processes do not end") from None
        if "result" in line:
            if name == "sender":
                run.sent = line["result"]
            else:
                run.received = line["result"]
        elif "event" in line:
            run.events.append((line["event"][0], line["event"][1]))
        elif "exit" in line:
            if not (run.sent if name == "sender" else run.received):
                raise DemoError(processes[name].why())
        elif "sample" in line and name == "receiver":
            at, placed, planes = line["sample"]
            run.placed.append((at, placed))
            for plane, count in planes.items():
                run.plane_rx.setdefault(int(plane), []).append((at, count))
        elif "sample" in line:
            at, last, _, rtx, states, run.cwnd, run.srtt_us = line["sample"]
            run.last_cut_tx.append((at, last))
            run.rtx.append((at, rtx))
            run.states.append((at, states))
            watch(run)
