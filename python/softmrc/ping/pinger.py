"""Sends rounds of probes, one on every path, and matches what comes back."""

from __future__ import annotations

import errno
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from softmrc.device import EventQueue, Wakeup, refusals
from softmrc.errors import UsageError, VerbsError
from softmrc.ping.paths import Path, Summary
from softmrc.verbs import Context

__all__ = ["MAX_TIMEOUT", "Pinger", "Target"]

MAX_TIMEOUT = 1.0
"""Seconds after which the engine itself gives a probe up."""
_BATCH = 4
_BATCH_SECONDS = 0.001
"""At most 4,000 probes a second, few at a time: they must not wait for each other, and a peer answers 10,000."""


@dataclass(frozen=True)
class Target:
    """Where a local plane's probes go."""

    plane: int
    """1-based number of the local plane."""
    address: str
    udp_port: int


class Pinger:
    """Probes every EV of some planes of an open device; a context manager."""

    def __init__(
        self,
        ctx: Context,
        targets: Sequence[Target],
        *,
        timeout: float = MAX_TIMEOUT,
        dscp: int = 0,
        names: Mapping[tuple[int, int], str] | None = None,
    ) -> None:
        """Prepare; `round` does it.

        Args:
            ctx: the device whose planes are used, all their EVs.
            targets: at most one for each plane.
            timeout: seconds an answer may take, more than 0, at most `MAX_TIMEOUT`.
            dscp: class of the probes, 0 to 63; answers are always CONTROL.
            names: of paths, by plane and EV.

        Raises:
            UsageError: an argument is out of range, or a target has no such plane.
        """
        if not 0 < timeout <= MAX_TIMEOUT:
            raise UsageError(f"timeout is more than 0 and at most {MAX_TIMEOUT:g} s, not {timeout:g}")
        if not 0 <= dscp <= 63:
            raise UsageError(f"dscp is 0 to 63, not {dscp}")
        self._evs = {p["port"]: list(p["evs"]) for p in ctx.planes}
        self._targets = {t.plane: t for t in targets}
        if not targets or len(self._targets) != len(targets) or not self._targets.keys() <= self._evs.keys():
            raise UsageError("ping needs one target for each plane it uses")
        self._ctx, self._timeout, self._dscp = ctx, timeout, dscp
        known = names or {}
        self.paths = [
            Path(plane, ev, known.get((plane, ev), ""))
            for plane in sorted(self._targets)
            for ev in self._evs[plane]
        ]
        longest = max(len(self._evs[plane]) for plane in self._targets)
        self._order = sorted(self.paths, key=lambda p: self._evs[p.plane].index(p.ev) / longest)
        self.refused = 0
        """Probes this host could not send; they count as neither sent nor lost."""
        self._answers = EventQueue(Wakeup(ctx.driver.event_fd()), limit=2 * len(self.paths) + 64)
        self._waiting: dict[int, Path] = {}
        ctx.pump.add_sink(self._on_event)

    def _on_event(self, event: dict[str, Any]) -> None:
        if event["kind"] == "endpoint_response":
            self._answers.push(event)

    def round(self) -> int:
        """Probe every path once and wait for the answers.

        Returns:
            How many paths answered in time.

        Raises:
            VerbsError: the driver refuses for good.
        """
        answered = 0
        for start in range(0, len(self._order), _BATCH):
            began = time.monotonic()
            for path in self._order[start : start + _BATCH]:
                self._send(path)
            answered += self._collect(began + _BATCH_SECONDS)
            if start + _BATCH < len(self._order):
                time.sleep(max(0.0, began + _BATCH_SECONDS - time.monotonic()))
        answered += self._collect(time.monotonic() + self._timeout)
        self._waiting.clear()
        return answered

    def _send(self, path: Path) -> None:
        target = self._targets[path.plane]
        try:
            with refusals("EV probe"):
                request = self._ctx.driver.send_ev_probe(
                    path.plane, target.address, target.udp_port, path.ev, self._dscp
                )
        except VerbsError as error:
            if error.errno != errno.EAGAIN:
                raise
            self.refused += 1
            return
        path.sent += 1
        self._waiting[request] = path

    def _collect(self, end: float) -> int:
        """Take answers until all are there or the time is over."""
        answered = 0
        while self._waiting:
            ready = self._ctx.pump.wait_for(
                self._answers.wakeup, lambda: len(self._answers) > 0, max(0.0, end - time.monotonic())
            )
            if not ready:
                break
            while (event := self._answers.pop()) is not None:
                path = self._waiting.pop(event["request_id"], None)
                if path is not None and event["up"]:
                    path.add(event["rtt_ns"])
                    answered += 1
        return answered

    def summary(self, plane: int | None = None) -> Summary:
        """Return the figures of a plane, or of all."""
        return Summary.of(p for p in self.paths if plane in (None, p.plane))

    def target(self, plane: int) -> Target:
        """Return where the probes of a plane go."""
        return self._targets[plane]

    @property
    def planes(self) -> list[int]:
        """Numbers of the planes that are probed."""
        return sorted(self._targets)

    def close(self) -> None:
        """Stop listening for answers; the device stays open. Idempotent."""
        self._ctx.pump.remove_sink(self._on_event)
        self._answers.wakeup.close()

    def __enter__(self) -> Pinger:
        """Enter: nothing to do."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Close."""
        self.close()
