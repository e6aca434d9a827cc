"""Which way entropy values take through a fabric whose wiring is known: uSID lists from its fabric file.

Decides, for addresses of the fabric's plan, how many EVs a plane has, which list each leads over, whether packets may
be trimmed, and whether a UDP checksum can be right. Other addresses are none of its business.
"""

from __future__ import annotations

import array
import fcntl
import os
import random
import re
import socket
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path as File
from typing import Any

from softmrc.device import host_interfaces
from softmrc.endpoint.denial import Denial
from softmrc.errors import UsageError
from softmrc.srv6 import FABRIC_ENV, PLANES_ENV, Denylist, FabricFile, Path, paths
from softmrc.verbs import spread_routes

__all__ = ["Steering", "Ways", "fabric_host", "guarded", "meeting_point", "planes_of_host", "sums_filled_in"]

_SIOCETHTOOL = 0x8946
_GET_TX_CHECKSUM = 0x16
_MAX_EVS = 4096
_HOST = re.compile(r"^h(\d+)$")


@dataclass(frozen=True)
class Ways:
    """The routes of one connection.

    Attributes:
        evs: by local plane, in the order they are taken.
        routes: by local plane, what `PeerPlane.routes` takes.
        names: the path of an EV in words, by local plane and EV.
        whole: every plane of the connection is steered.
        paths: the path of an EV, by local plane and EV.
        hosts: names of both ends in the fabric, ours first, by local plane.
    """

    evs: Mapping[int, Sequence[int]] = field(default_factory=dict)
    routes: Mapping[int, tuple[tuple[int, str], ...]] = field(default_factory=dict)
    names: Mapping[tuple[int, int], str] = field(default_factory=dict)
    whole: bool = False
    paths: Mapping[tuple[int, int], Path] = field(default_factory=dict)
    hosts: Mapping[int, tuple[str, str]] = field(default_factory=dict)


class Steering:
    """What an endpoint knows of its fabric."""

    def __init__(self, fabric: FabricFile | None, denylist: File | None = None) -> None:
        """Keep it; None: nothing is known and everything goes to plain addresses.

        Args:
            fabric: the fabric.
            denylist: file of what is denied in it; it need not be there.
        """
        self.fabric = fabric
        self.denial = Denial(denylist)

    @classmethod
    def of(cls, file: str | None) -> Steering:
        """Read a fabric file.

        Args:
            file: its path; None: the one that `SOFTMRC_FABRIC` names, if any; "": none.

        Raises:
            UsageError: it cannot be read, or is no fabric file.
        """
        name = os.environ.get(FABRIC_ENV, "") if file is None else file
        return cls(FabricFile.read(File(name)), Denylist.beside(name)) if name else cls(None)

    def evs(self, address: str, wanted: int) -> int:
        """Return how many EVs a plane gets: at least one a path, and of each path the same number.

        Args:
            address: of the plane.
            wanted: EVs without a fabric.
        """
        fabric = self.fabric
        mine = fabric.whose(address) if fabric is not None and fabric.mode == "usid" else None
        if fabric is None or mine is None:
            return wanted
        most = _most_paths(fabric, *mine)
        return min(-(-max(wanted, most) // most) * most, max(_MAX_EVS // most * most, 1))

    def plane(self, plane: Mapping[str, Any], evs: int) -> dict[str, Any]:
        """Return a plane's configuration with what the fabric asks for.

        Args:
            plane: as `Context` takes it.
            evs: of planes that do not say.
        """
        made = self.reach(plane)
        fabric = self.fabric
        if fabric is None or fabric.mode != "usid" or fabric.whose(made["address"]) is None:
            return made
        made["evs"] = self.evs(made["address"], made.get("evs") or evs)
        if "gateway" not in made and (fabric.checksum == "none" or sums_filled_in(made["address"])):
            made["udp_checksum"] = False
        return made

    def reach(self, plane: Mapping[str, Any]) -> dict[str, Any]:
        """Return a plane's configuration with the user-space switch that it hangs on, where there is one."""
        gateway = self.fabric.gateway(str(plane["address"])) if self.fabric is not None else None
        return {**plane, **({} if gateway is None else {"gateway": gateway})}

    def meet(self, address: str) -> str:
        """Return where to make connections with the host of an address: elsewhere behind a user-space switch."""
        return (self.fabric.meeting_point(address) if self.fabric is not None else None) or address

    def ways(self, pairs: Sequence[tuple[str, str, int, Sequence[int]]]) -> Ways:
        """Deal the paths to a peer out to EVs.

        Args:
            pairs: own address, peer's address, number of our plane, its EVs; those that come first are sure to be on
                different paths.
        """
        routes: dict[int, tuple[tuple[int, str], ...]] = {}
        chosen: dict[tuple[int, int], Path] = {}
        hosts: dict[int, tuple[str, str]] = {}
        for local, remote, plane, evs in pairs:
            steer = self.fabric.steer(local, remote) if self.fabric is not None else None
            if steer is None:
                continue
            # In another order for each connection, so that few EVs of many do not all take the first paths.
            mixed = random.sample(steer.paths, len(steer.paths))
            routes[plane] = spread_routes(evs, [p.address for p in mixed])
            chosen |= {(plane, ev): mixed[i % len(mixed)] for i, ev in enumerate(evs)}
            hosts[plane] = (f"h{steer.src}", f"h{steer.dst}")
        names = {key: path.name for key, path in chosen.items()}
        every = {plane: evs for _, _, plane, evs in pairs}
        return Ways(every, routes, names, len(routes) == len(pairs) > 0, chosen, hosts)

    def trimming(self, wanted: bool | None, ways: Ways) -> bool:
        """Return whether a connection's packets may be trimmed.

        Args:
            wanted: the user's word; None: what the fabric says, where all planes are its own.
            ways: of the connection.
        """
        if wanted is not None:
            return wanted
        return ways.whole and self.fabric is not None and self.fabric.trimming

    def base_rtt(self, wanted: float, ways: Ways) -> float:
        """Return the round trip, seconds, that a connection's window is sized for: what the fabric says, if it is more.

        Args:
            wanted: the knob.
            ways: of the connection.
        """
        return max(wanted, self.fabric.base_rtt) if ways.whole and self.fabric is not None else wanted

    def window(self, most: int, ways: Ways, base_rtt: float) -> int:
        """Return the largest window, bytes: 1.5 x rate of all ports x base round trip, where the fabric has a rate.

        More would only stand in queues.

        Args:
            most: that the peer's buffers allow.
            ways: of the connection.
            base_rtt: as `base_rtt` returned it.
        """
        if not ways.whole or self.fabric is None or not self.fabric.rate_bps or not self.fabric.base_rtt:
            return most
        return min(most, int(1.5 * len(ways.routes) * self.fabric.rate_bps / 8 * base_rtt))


def _most_paths(fabric: FabricFile, plane: int, host: int) -> int:
    shape = fabric.shape
    if shape.links:
        others = [h for h in range(shape.hosts) if h != host]
        return max((len(paths(shape, plane, host, h)) for h in others), default=1) or 1
    # In a folded Clos the farthest host, the last one or the first, has most ways to it.
    return max(len(paths(shape, plane, host, h)) for h in (0, shape.hosts - 1))


def meeting_point(address: str) -> str:
    """Return where to meet the host of an address, by the fabric that `SOFTMRC_FABRIC` names; see `Steering.meet`."""
    return Steering.of(None).meet(address)


def planes_of_host() -> tuple[str, ...]:
    """Return the planes that `SOFTMRC_PLANES` names: those of the fabric's host this process runs in."""
    return tuple(p.strip() for p in os.environ.get(PLANES_ENV, "").split(",") if p.strip())


def fabric_host(name: str) -> list[str]:
    """Return the addresses of a host of the fabric that `SOFTMRC_FABRIC` names, as `h3`; none when it is no such name.

    Raises:
        UsageError: the fabric has no such host.
    """
    match = _HOST.match(name)
    fabric = Steering.of(None).fabric if match else None
    if match is None or fabric is None:
        return []
    host = int(match[1])
    if host >= fabric.shape.hosts:
        raise UsageError(f"no host {name} in fabric {fabric.name}: h0 to h{fabric.shape.hosts - 1}")
    return fabric.addresses(host)


def guarded(planes: Sequence[dict[str, Any]], icrc: bool) -> list[dict[str, Any]]:
    """Return planes as they are, unless nothing at all would tell damaged packets from whole ones.

    Args:
        planes: as `Context` takes them.
        icrc: False: this end asks to leave it off.

    Raises:
        UsageError: a plane without a UDP checksum would lose its iCRC, too.
    """
    bare = [p["address"] for p in planes if "gateway" in p or not p.get("udp_checksum", True)]
    if bare and not icrc:
        raise UsageError(
            f"plane {bare[0]} sends without a UDP checksum (behind a user-space switch, or because uSID lists would "
            "make it wrong): the iCRC alone guards it and cannot be left off"
        )
    return list(planes)


def sums_filled_in(address: str) -> bool:
    """Return True when the device of an address fills UDP checksums in by software.

    It does so for the first address of a uSID list, so they are wrong at the last. False when nobody can say.
    """
    name = next((i.name for i in host_interfaces() if address in i.addresses), None)
    if name is None or name == "lo":
        return False
    buffer = array.array("B", struct.pack("II", _GET_TX_CHECKSUM, 1))
    pointer, _ = buffer.buffer_info()
    request = struct.pack("16sP16x", name.encode(), pointer)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            fcntl.ioctl(sock, _SIOCETHTOOL, request)
        except OSError:
            return False
    return bool(struct.unpack("II", buffer.tobytes())[1] == 0)
