"""Where the ranks run: in a lab whose links really break, or on loopback, where they break in software."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from softmrc.train_demo.plan import Incident, Plan

if TYPE_CHECKING:
    from softmrc.lab import Lab

__all__ = ["LabPlace", "LoopbackPlace"]

_PORT = 29_700
_FLAPS = ((0.0, 0.2), (0.4, 0.6), (0.8, 1.0))  # parts of a flap's time for which the link is down
_LOSS = 0.05


def _command(config: dict[str, Any]) -> list[str]:
    mortal = ["setpriv", "--pdeathsig", "KILL", "--"] if shutil.which("setpriv") else []
    told = json.dumps(config)
    return [*mortal, sys.executable, "-W", "ignore", "-m", "softmrc.train_demo.rank", told]


class LoopbackPlace:
    """All ranks on this host, over planes of 127.0.0.0/8; no rights needed.

    Every rank's own endpoint loses what the failures take, by rules for both directions. A peer that speaks TCP over
    loopback cannot be disturbed here.
    """

    can_disturb = frozenset({"mrc"})
    words = "loopback planes, broken in software"

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def store(self) -> str:
        """A free port of this host."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return f"tcp://127.0.0.1:{probe.getsockname()[1]}"

    def start(self, rank: int, config: dict[str, Any], backend: str) -> subprocess.Popen[str]:
        """Start a rank."""
        planes = ",".join(f"127.0.{p}.{rank + 1}" for p in range(1, self._plan.planes + 1))
        env = {
            **os.environ,
            "GLOO_SOCKET_IFNAME": "lo",
            "SOFTMRC_PLANES": planes,
            "SOFTMRC_LOCAL": "0",  # ranks of one host would exchange through memory otherwise
            "TORCH_CPP_LOG_LEVEL": "ERROR",
        }
        return subprocess.Popen(
            _command(config), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
        )

    def rules(self, incidents: Sequence[Incident], began: float) -> list[dict[str, Any]]:
        """The rate of every plane, and what fails, for `softmrc.train_demo.rules`; times are CLOCK_MONOTONIC."""
        rate = [
            {"kind": "rate", "plane": p, "bps": self._plan.rate_bps} for p in range(1, self._plan.planes + 1)
        ]
        return rate + [
            {
                **asdict(i),
                "from": began + i.at + a * i.seconds,
                "until": began + i.at + b * i.seconds,
                "t1s": self._plan.t1,
            }
            for i in incidents
            for a, b in (_FLAPS if i.kind == "flap" else ((0.0, 1.0),))
        ]

    @contextlib.contextmanager
    def play(self, incidents: Sequence[Incident], began: float) -> Iterator[None]:
        """Nothing to do: the ranks break their own planes."""
        yield


class LabPlace:
    """One rank a host of a lab; links and switches of the lab fail, for every backend alike."""

    can_disturb = frozenset({"mrc", "gloo"})
    words = "a lab of network namespaces"

    def __init__(self, plan: Plan, lab: Lab) -> None:
        self._plan, self._lab = plan, lab
        self._runs = 0

    def store(self) -> str:
        """A port of the first host, another one each time: no run meets the sockets of the last."""
        self._runs += 1
        return f"tcp://[{self._lab.addresses('h0')[0]}]:{_PORT + self._runs}"

    def start(self, rank: int, config: dict[str, Any], backend: str) -> subprocess.Popen[str]:
        """Start a rank on the host of its number."""
        host = f"h{rank}"
        env = {
            **os.environ,
            "GLOO_SOCKET_IFNAME": "p1",
            "TORCH_CPP_LOG_LEVEL": "ERROR",
        }  # its one path: gloo has no use for more
        return self._lab.popen(
            host, *_command(config), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
        )

    def rules(self, incidents: Sequence[Incident], began: float) -> list[dict[str, Any]]:
        """None: the fabric itself breaks."""
        return []

    @contextlib.contextmanager
    def play(self, incidents: Sequence[Incident], began: float) -> Iterator[None]:
        """Break and heal from a thread of its own."""
        from softmrc.lab.faults import heal

        stop = threading.Event()
        thread = threading.Thread(
            target=self._play, args=(incidents, began, stop), name="faults", daemon=True
        )
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
            heal(self._lab)

    def _play(self, incidents: Sequence[Incident], began: float, stop: threading.Event) -> None:
        from softmrc.lab.faults import fail, heal

        deeds: list[tuple[float, bool, str, dict[str, Any]]] = []
        for incident in incidents:
            for a, b in _FLAPS if incident.kind == "flap" else ((0.0, 1.0),):
                for target, how in self._targets(incident):
                    deeds.append((incident.at + a * incident.seconds, True, target, how))
                    deeds.append((incident.at + b * incident.seconds, False, target, {}))
        for at, breaks, target, how in sorted(deeds, key=lambda d: d[0]):
            if stop.wait(max(0.0, began + at - time.monotonic())):
                return
            if breaks:
                fail(self._lab, target, **how)
            else:
                heal(self._lab, target)

    def _targets(self, incident: Incident) -> list[tuple[str, dict[str, Any]]]:
        plane = f"p{incident.plane}"
        if incident.kind == "all planes down":
            return [(f"p{p}", {}) for p in range(1, self._plan.planes + 1)]
        if incident.kind == "T1 reboot":
            return [(f"{plane}.t1-{incident.t1}", {})]
        if incident.kind == "5 % loss":
            return [(f"{plane}.t0-0.t1-{incident.t1}", {"loss": _LOSS})]
        return [(plane, {})]
