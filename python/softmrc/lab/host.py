"""What this host can do for a lab, found out before anything is made.

Three questions: may namespaces be made here, does the kernel forward uSIDs, and is there room for that many nodes. What
has to be tried is tried in a namespace of its own that ends with the command.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from softmrc.errors import UsageError
from softmrc.lab.plan import Plan
from softmrc.netns.host import missing

__all__ = ["Choice", "choose", "kernel_lacks", "room_lacks", "room_notes"]

_SECONDS = 5.0
_BYTES_PER_NODE = 3 << 20  # measured: 1.4 MiB a namespace with 8 ports, queues and filters
_BYTES_PER_LINK = 256 << 10
_FILES_PER_NODE = 6
_LOADED = "encap seg6local action End flavors next-csid"
# What must be there, the command that shows it, and what stands in the way when it fails.
_TRIALS = (
    ("veth devices (CONFIG_VETH)", "ip link add v0 type veth peer name v1"),
    ("ifb devices (CONFIG_IFB)", "ip link add sr0 type ifb && ip link set sr0 up"),
    (
        "seg6local routes (CONFIG_IPV6_SEG6_LWTUNNEL)",
        "ip -6 route add fd00:1::/48 encap seg6local action End dev sr0",
    ),
    (
        "the next-csid flavor (Linux 6.1, and an iproute2 that knows it)",
        "ip -6 route add fd00:2::/48 encap seg6local action End flavors next-csid lblen 32 nflen 16 count dev sr0"
        " && ip -6 route show fd00:2::/48 | grep -q next-csid",
    ),
    ("HTB queues (CONFIG_NET_SCH_HTB)", "tc qdisc add dev v0 root handle 1: htb"),
)


@dataclass(frozen=True)
class Choice:
    """Which switches a lab gets.

    Attributes:
        mode: "kernel" or "soft".
        why: in words; for "soft" what the kernel lacks.
    """

    mode: str
    why: str


def kernel_lacks() -> tuple[str, ...]:
    """Return what stands in the way of a lab in the kernel, in words; empty: nothing does."""
    if lacks := missing():
        return lacks
    lines = []
    for number, (_, trial) in enumerate(_TRIALS):
        lines.append(f"( {trial} ) 2>/dev/null && echo ok {number}")
    try:
        done = subprocess.run(
            ["unshare", "--net", "sh", "-c", "\n".join(lines)],
            capture_output=True, text=True, timeout=_SECONDS, check=False,
        )  # fmt: skip
    except FileNotFoundError:
        return ("needs unshare (util-linux)",)
    except (OSError, subprocess.SubprocessError) as error:
        return (f"no network namespace to try in: {error}",)
    worked = {line for line in done.stdout.splitlines() if line.startswith("ok ")}
    return tuple(f"the kernel lacks {what}" for n, (what, _) in enumerate(_TRIALS) if f"ok {n}" not in worked)


def room_lacks(plan: Plan) -> tuple[str, ...]:
    """Return the limits of this host that a lab of this size would run into, each with what to do about it."""
    nodes, links = len(plan.nodes), len(plan.links)
    lacks = []
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if files != resource.RLIM_INFINITY and files < nodes * _FILES_PER_NODE + 64:
        lacks.append(
            f"{nodes} nodes need {nodes * _FILES_PER_NODE + 64} open files, the limit is {files}: ulimit -n 65536"
        )
    spaces = _number("/proc/sys/user/max_net_namespaces")
    if spaces is not None and spaces < nodes:
        lacks.append(
            f"{nodes} nodes, but at most {spaces} network namespaces: sysctl user.max_net_namespaces={2 * nodes}"
        )
    need = nodes * _BYTES_PER_NODE + links * _BYTES_PER_LINK
    free = _available_memory()
    if free is not None and free < need:
        lacks.append(
            f"{nodes} nodes and {links} links need about {need >> 20} MiB, {free >> 20} MiB are free: make fewer"
        )
    return tuple(lacks)


def room_notes(plan: Plan) -> tuple[str, ...]:
    """Return limits that do not hinder a lab of this size, but may hinder programs in it.

    The neighbours of the lab's own links are permanent, and the kernel does not count those. What programs add
    (bridges, containers, discovery on addresses of their own) it does, in one table for all namespaces.
    """
    links = len(plan.links)
    thresh = _number("/proc/sys/net/ipv6/neigh/default/gc_thresh3")
    if thresh is None or thresh >= 2 * links:
        return ()
    return (
        f"{links} links, but the neighbour table of all namespaces ends at {thresh} entries: links that programs add "
        f"may lose packets (sysctl net.ipv6.neigh.default.gc_thresh3={8 * links})",
    )


def choose(wanted: str, delay_ns: int = 0) -> Choice:
    """Say which switches a lab gets.

    Args:
        wanted: "kernel", "soft", "veth" (hosts in namespaces round the user-space switch) or "auto".
        delay_ns: of links; more than 0 is nothing for the kernel.

    Raises:
        UsageError: "kernel", and this host cannot; or nothing can be made at all.
    """
    if wanted in ("soft", "veth"):
        return Choice("soft", "asked for")
    lacks = kernel_lacks()
    if delay_ns:
        lacks = (*lacks, "links with a delay are the user-space switch's (no netem)")
    if not lacks:
        return Choice("kernel", "asked for" if wanted == "kernel" else "the kernel has all it takes")
    if wanted == "kernel":
        raise UsageError(f"no lab in the kernel: {', '.join(lacks)}; --switch soft needs none of that")
    return Choice("soft", ", ".join(lacks))


def _number(file: str) -> int | None:
    try:
        return int(Path(file).read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return None


def _available_memory() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return None


def can_map_root() -> bool:
    """Whether an unprivileged user may have namespaces of their own (`unshare -Urn`)."""
    if os.geteuid() == 0 or shutil.which("unshare") is None:
        return False
    try:
        done = subprocess.run(
            ["unshare", "-Urnm", "true"], capture_output=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0
