"""What this host offers, found by trying.

Planes, socket options, kernel settings. Reads and probes, changes nothing.
"""

from __future__ import annotations

import ipaddress
import json
import os
import socket
import struct
import subprocess
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from softmrc.cli.kernel import Srv6, try_srv6
from softmrc.cpus import cpu_list, node_of, numa_nodes

__all__ = ["Check", "Finding", "Host", "PlaneFound", "advice", "inspect"]

WANTED_RCVBUF = 4 << 20
WANTED_SNDBUF = 400_000
FULL_PACKET_MTU = 4096 + 104
"""IP packet that carries 4096 bytes of payload."""


@dataclass
class PlaneFound:
    """One usable local address."""

    interface: str
    address: str
    family: int
    mtu: int
    up: bool
    mbit: int
    """Link rate; 0: unknown."""
    numa_node: int | None = None
    """Node the interface hangs on; None: unknown."""

    @property
    def loopback(self) -> bool:
        """Leads nowhere but to this host."""
        return ipaddress.ip_address(self.address.split("%")[0]).is_loopback

    @property
    def link_local(self) -> bool:
        """Usable on its own link only."""
        return ipaddress.ip_address(self.address.split("%")[0]).is_link_local


@dataclass(frozen=True)
class Check:
    """One thing the driver looked at."""

    item: str
    status: str
    """One of ok, warn, missing, unknown."""
    value: str
    """What was found."""
    hint: str
    """What it means or what to change; empty when nothing is to be done."""


@dataclass
class Host:
    """Everything found."""

    kernel: str
    cpus: int
    cpus_usable: str = ""
    """Those this process may be kept on, "0-3,8"."""
    numa: dict[int, str] = field(default_factory=dict)
    """CPUs of each NUMA node; empty: the kernel names none."""
    planes: list[PlaneFound] = field(default_factory=list)
    ipv4: bool = False
    ipv6: bool = False
    gso: bool = False
    gro: bool = False
    rcvbuf_granted: int = 0
    sndbuf_granted: int = 0
    rmem_max: int = 0
    wmem_max: int = 0
    flow_labels: bool = False
    ecn_readable: bool = False
    seg6: bool = False
    """The kernel knows segment routing."""
    seg6_enabled: list[str] = field(default_factory=list)
    """Interfaces that accept segment routing headers."""
    srv6: Srv6 = field(default_factory=Srv6)
    """What SRv6 routes the kernel takes."""
    raw_sockets: bool = False
    packet_options: bool = False
    """Class and hop limit can differ by packet."""
    checks: list[Check] = field(default_factory=list)
    """What the driver found by trying."""
    core: str = ""
    """Version or problem of the compiled core."""

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return asdict(self)


@dataclass(frozen=True)
class Finding:
    """Something to change: what, why, and the exact line."""

    problem: str
    effect: str
    command: str


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def _number(path: str) -> int:
    text = _read(path)
    return int(text) if text.lstrip("-").isdigit() else 0


def _addresses() -> list[tuple[str, str, int]]:
    """Return (interface, address, family) of this host, from the kernel's own lists."""
    try:
        done = subprocess.run(["ip", "-j", "addr"], capture_output=True, timeout=5.0, check=True)
        found = [
            (link["ifname"], address["local"], 6 if address["family"] == "inet6" else 4)
            for link in json.loads(done.stdout)
            for address in link.get("addr_info", [])
            if "local" in address
        ]
        return [
            (i, f"{a}%{i}" if ipaddress.ip_address(a).is_link_local and f == 6 else a, f) for i, a, f in found
        ]
    except (OSError, subprocess.SubprocessError, ValueError, KeyError):
        return _addresses_without_ip()


def _addresses_without_ip() -> list[tuple[str, str, int]]:
    import fcntl

    found: list[tuple[str, str, int]] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            try:  # SIOCGIFADDR
                raw = fcntl.ioctl(probe.fileno(), 0x8915, struct.pack("256s", name.encode()[:15]))
                found.append((name, socket.inet_ntoa(raw[20:24]), 4))
            except OSError:
                continue
    for line in _read("/proc/net/if_inet6").splitlines():
        raw_address, _, _, scope, _, name = line.split()
        address = str(ipaddress.IPv6Address(bytes.fromhex(raw_address)))
        found.append((name, f"{address}%{name}" if scope == "20" else address, 6))
    return found


def _planes() -> list[PlaneFound]:
    planes = []
    for name, address, family in _addresses():
        base = f"/sys/class/net/{name}"
        state = _read(f"{base}/operstate")
        speed = _number(f"{base}/speed") if state == "up" else 0
        planes.append(
            PlaneFound(
                name,
                address,
                family,
                _number(f"{base}/mtu"),
                state in ("up", "unknown"),
                max(0, speed),
                node_of(name),
            )
        )
    return planes


def _try_options(host: Host) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        host.ipv4 = _try(lambda: probe.bind(("127.0.0.1", 0)))
        host.ecn_readable = _try(lambda: probe.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1))
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, WANTED_RCVBUF)
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, WANTED_SNDBUF)
        # The kernel reports twice what it grants, for its own bookkeeping.
        host.rcvbuf_granted = probe.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 2
        host.sndbuf_granted = probe.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) // 2
    host.raw_sockets = _try(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close())


def _ask_driver(host: Host) -> None:
    """Take what the driver itself finds by trying."""
    try:
        from softmrc import _core
    except ImportError as error:
        host.core = f"missing: {error}"
        return
    host.core = str(getattr(_core, "__version__", "present"))
    host.checks = [Check(**item) for item in _core.probe_host()]
    works = {check.item: check.status == "ok" for check in host.checks}
    host.gso, host.gro = works["udp_segment"], works["udp_gro"]
    host.ipv6, host.flow_labels = works["ipv6"], works["flow_label"]
    host.packet_options = works["packet_options"]


def _try(call: Any) -> bool:
    try:
        call()
    except OSError:
        return False
    return True


def inspect() -> Host:
    """Look at this host."""
    host = Host(
        kernel=os.uname().release,
        cpus=os.cpu_count() or 1,
        cpus_usable=cpu_list(sorted(os.sched_getaffinity(0))),
        numa={node: cpu_list(cpus) for node, cpus in numa_nodes().items()},
    )
    host.planes = _planes()
    _try_options(host)
    host.rmem_max = _number("/proc/sys/net/core/rmem_max")
    host.wmem_max = _number("/proc/sys/net/core/wmem_max")
    conf = Path("/proc/sys/net/ipv6/conf")
    host.seg6 = (conf / "all" / "seg6_enabled").exists()
    if host.seg6:
        host.seg6_enabled = sorted(
            p.name
            for p in conf.iterdir()
            if p.name not in ("all", "default") and _read(f"{p}/seg6_enabled") == "1"
        )
    host.srv6 = try_srv6()
    _ask_driver(host)
    return host


def advice(host: Host) -> list[Finding]:
    """Return what to change, most helpful first."""
    found: list[Finding] = []
    if host.core.startswith("missing"):
        found.append(Finding(f"the compiled core is {host.core}", "nothing works", "make build"))
    if host.rcvbuf_granted < WANTED_RCVBUF:
        found.append(
            Finding(
                f"receive buffers are capped at {host.rcvbuf_granted} bytes",
                "bursts are lost in this host and the congestion window is kept small",
                f"sysctl -w net.core.rmem_max={max(WANTED_RCVBUF, host.rmem_max)}",
            )
        )
    if host.sndbuf_granted < WANTED_SNDBUF:
        found.append(
            Finding(
                f"send buffers are capped at {host.sndbuf_granted} bytes",
                "the sender waits for the kernel more often",
                f"sysctl -w net.core.wmem_max={max(WANTED_SNDBUF, host.wmem_max)}",
            )
        )
    if not host.ipv6:
        found.append(
            Finding(
                "IPv6 is off",
                "no flow labels and no SRv6; paths differ by source port",
                "sysctl -w net.ipv6.conf.all.disable_ipv6=0",
            )
        )
    elif not host.flow_labels:
        found.append(
            Finding(
                "flow labels cannot be set",
                "paths over IPv6 differ by source port instead",
                "sysctl -w net.ipv6.flowlabel_consistency=0",
            )
        )
    real = [p for p in host.planes if p.up and not p.loopback]
    for name in sorted({p.interface for p in real if 0 < p.mtu < FULL_PACKET_MTU}):
        mtu = next(p.mtu for p in real if p.interface == name)
        found.append(
            Finding(
                f"{name} has an MTU of {mtu}",
                "smaller packets than 4096 bytes cost CPU",
                f"ip link set {name} mtu 9000   # if its switches and peers can carry it",
            )
        )
    return found
