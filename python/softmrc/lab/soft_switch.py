"""The process of a user-space switch: `python -m softmrc.lab.soft_switch NAME`.

Reads the lab's spec from its state, runs the switch, says on standard output where its hosts' ports are, and then
serves one-line requests on a socket that only its user may open. It ends when told to, by SIGTERM, and, unless the lab
is to be kept, with the process that holds the other end of its standard input.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import selectors
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from softmrc import _core
from softmrc.errors import MrcError
from softmrc.lab.condition import LineState
from softmrc.lab.plan import make_plan
from softmrc.lab.soft_config import DIRECTIONS, SoftPlane, devices, fault_of, soft_planes
from softmrc.lab.state import LabState, file_of
from softmrc.srv6 import host_address

__all__ = ["SoftServer", "control_file", "main"]

_MAX_REQUEST = 1 << 20
_FIRST_BLOCK, _LAST_BLOCK = 64, 191
_CLAIM_PORT = 40794
_PLANES_A_THREAD = 4
_QUANTUM_US = 100
"""How often a thread looks at most: a third less work than at 50, a tenth of the round trip of two hosts."""


def control_file(name: str) -> Path:
    """Return the socket on which the switch of a lab is told what to do."""
    return file_of(name, "soft")


class SoftServer:
    """A running switch and what may be asked of it."""

    def __init__(self, state: LabState, threads: int | None = None) -> None:
        """Start the switch.

        Args:
            state: of the lab.
            threads: None: one for every few planes, as far as the machine has processors.

        Raises:
            MrcError: a socket or thread could not be had; says what to do.
        """
        self._spec = state.spec
        self._planes = soft_planes(make_plan(state.spec))
        self._by_link = {link.name: plane for plane in self._planes for link in plane.links}
        self._rates = {
            link.name: state.spec.link_rate(link.kind) for plane in self._planes for link in plane.links
        }
        veth = state.spec.switch == "veth"
        self._claim, self.meeting = _claim_block()
        _raise_files(len(self._by_link))
        address = f"{self.meeting}.255.1"
        spread = -(-len(self._planes) // _PLANES_A_THREAD)
        config = {
            "fabrics": [
                {**plane.config, "devices": devices(plane) if veth else []} for plane in self._planes
            ],
            "threads": threads or min(spread, os.cpu_count() or 1),
            "address": address,
            "quantum_us": _QUANTUM_US,
        }
        try:
            self._switch = _core.SoftSwitch(config)
        except OSError as error:
            raise MrcError(f"no user-space switch: {error.strerror}") from None
        self._recorded: dict[str, int] = {}
        self.gateways = {
            host_address(plane.plane, int(name.removeprefix("h"))): f"{address}:{self._port(i, plane, name)}"
            for i, plane in enumerate(self._planes)
            for name in plane.nodes
            if name.startswith("h") and not veth
        }
        self._verbs: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
            "lines": self._lines,
            "counters": self._counters,
            "sent": self._sent,
            "faults": self._faults,
            "record": self._record,
            "stop_recording": self._stop_recording,
            "stats": lambda _: {**self._switch.stats(), "failure": self._switch.failure()},
        }

    def _port(self, fabric: int, plane: SoftPlane, host: str) -> int:
        return int(self._switch.socket_port(fabric, plane.nodes.index(host)))

    def close(self) -> None:
        """Stop the switch. Idempotent."""
        self._switch.close()
        self._claim.close()

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Do what is asked; errors come back in words."""
        verb = self._verbs.get(str(request.get("do")))
        if verb is None:
            return {"error": f"no such request: {str(request.get('do'))[:40]!r}"}
        try:
            return {"ok": verb(request)}
        except ValueError as error:
            return {"error": str(error)}
        except (KeyError, TypeError, OSError) as error:
            return {"error": f"{request['do']}: {type(error).__name__}: {error}"}

    def _lines(self, request: Mapping[str, Any]) -> None:
        for change in request["changes"]:
            plane = self._by_link[change["link"]]
            for direction in DIRECTIONS:
                fault = fault_of(
                    LineState(**change[direction]), bool(change["cut"]), self._rates[change["link"]]
                )
                port = plane.port(change["link"], direction)
                self._switch.set_fault(plane.plane - 1, port, fault)

    def _counters(self, _: Mapping[str, Any]) -> dict[str, Any]:
        nodes: dict[str, Any] = {}
        ports: dict[str, Any] = {}
        for i, plane in enumerate(self._planes):
            for name, count in zip(plane.nodes, self._switch.node_counters(i), strict=True):
                nodes[f"{name}.p{plane.plane}" if name.startswith("h") else name] = count
            counts = self._switch.port_counters(i)
            for k, link in enumerate(plane.links):
                ports[link.name] = {"up": counts[2 * k], "down": counts[2 * k + 1]}
        return {"nodes": nodes, "ports": ports}

    def _sent(self, request: Mapping[str, Any]) -> list[int]:
        counts: dict[int, list[int]] = {}
        found = []
        for link, direction in request["ports"]:
            plane = self._by_link[link]
            fabric = plane.plane - 1
            if fabric not in counts:
                counts[fabric] = self._switch.sent_bytes(fabric)
            found.append(counts[fabric][plane.port(link, direction)])
        return found

    def _faults(self, _: Mapping[str, Any]) -> dict[str, Any]:
        found = {}
        for i, plane in enumerate(self._planes):
            faults = self._switch.faults(i)
            for k, link in enumerate(plane.links):
                found[link.name] = {"up": faults[2 * k], "down": faults[2 * k + 1]}
        return found

    def _record(self, request: Mapping[str, Any]) -> None:
        plane = self._by_link[request["link"]]
        fabric, ports = (
            plane.plane - 1,
            [plane.port(request["link"], direction) for direction in DIRECTIONS],
        )
        try:
            self._switch.capture(fabric, ports, request["file"])
        except OSError as error:
            raise ValueError(f"cannot write {request['file']}: {os.strerror(error.errno or 0)}") from None
        self._recorded[request["file"]] = fabric

    def _stop_recording(self, request: Mapping[str, Any]) -> None:
        self._switch.capture(self._recorded.pop(request["file"]), [], request["file"])


def _claim_block() -> tuple[socket.socket, str]:
    """Return the first half of 127.x addresses that no other lab of this host uses, and the socket that claims it."""
    for block in range(_FIRST_BLOCK, _LAST_BLOCK + 1):
        claim = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            claim.bind((f"127.{block}.255.254", _CLAIM_PORT))
        except OSError:
            claim.close()
            continue
        return claim, f"127.{block}"
    raise MrcError("127.64 to 127.191 are all taken by other labs of this host: softmrc lab status, lab down")


def _raise_files(links: int) -> None:
    """Let this process open one socket a host and plane, as far as the hard limit lets it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = links + 256
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


class _Loop:
    """Serves requests until the end."""

    def __init__(self, server: SoftServer, listening: socket.socket) -> None:
        self._server = server
        self._select = selectors.DefaultSelector()
        self._wanted: dict[socket.socket, bytes] = {}
        self._select.register(listening, selectors.EVENT_READ, self._accept)
        self.running = True

    def end_with(self, file: int) -> None:
        """End when a descriptor says that its other end is gone."""
        self._select.register(file, selectors.EVENT_READ, self._gone)

    def run(self) -> None:
        while self.running:
            for key, _ in self._select.select():
                key.data(key.fileobj)

    def _gone(self, file: int) -> None:
        if not os.read(file, 4096):
            self.running = False

    def _accept(self, listening: socket.socket) -> None:
        with contextlib.suppress(OSError):
            one, _ = listening.accept()
            one.settimeout(1.0)  # whoever asks takes the answer
            self._wanted[one] = b""
            self._select.register(one, selectors.EVENT_READ, self._read)

    def _read(self, one: socket.socket) -> None:
        try:
            data = one.recv(65536)
            text = self._wanted[one] + data
            if not data or len(text) > _MAX_REQUEST:
                raise OSError
            *whole, self._wanted[one] = text.split(b"\n")
            for line in whole:
                one.sendall(json.dumps(self._answer(line)).encode() + b"\n")
        except OSError:
            self._select.unregister(one)
            del self._wanted[one]
            one.close()

    def _answer(self, line: bytes) -> dict[str, Any]:
        try:
            request = json.loads(line)
        except (ValueError, RecursionError):
            return {"error": "a request is one line of JSON"}
        if not isinstance(request, dict):
            return {"error": "a request is a JSON object"}
        return self._server.answer(request)


def main(name: str, keep: bool) -> int:
    """Run the switch of a lab; returns the exit status."""
    state = LabState.load(name)
    if state is None:
        print(json.dumps({"error": f"there is no lab {name}"}), flush=True)
        return 2
    file = control_file(name)
    try:
        server = SoftServer(state)
    except MrcError as error:
        print(json.dumps({"error": str(error)}), flush=True)
        return 1
    with contextlib.closing(server), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        file.unlink(missing_ok=True)
        old = os.umask(0o177)
        listening.bind(str(file))
        os.umask(old)
        listening.listen(64)
        loop = _Loop(server, listening)

        def stop(*_: object) -> None:
            raise SystemExit(0)

        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal: the lab's owner decides
        if not keep:
            loop.end_with(sys.stdin.fileno())
        meeting = server.meeting if server.gateways else ""
        print(json.dumps({"gateways": server.gateways, "meeting": meeting}), flush=True)
        try:
            loop.run()
        finally:
            file.unlink(missing_ok=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1], "--keep" in sys.argv[2:]))
