"""The fabric file: what a program inside a host must know to send along the paths of its fabric.

One small JSON file for all hosts, or one each; which host the reader is follows from its own addresses. It says how
the planes are wired, whether switches trim, and who fills UDP checksums in. `SOFTMRC_FABRIC` names it.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path as File
from typing import Any

from softmrc.errors import UsageError
from softmrc.srv6.plan import BLOCK_BITS, Path, block, host_address
from softmrc.srv6.shape import Shape, paths

__all__ = ["CHECKSUMS", "FABRIC_ENV", "PLANES_ENV", "FabricFile", "Steer"]

FABRIC_ENV = "SOFTMRC_FABRIC"
PLANES_ENV = "SOFTMRC_PLANES"
_MEETING = re.compile(r"^\d{1,3}\.\d{1,3}$")
FORMAT = "softmrc-fabric"
VERSION = 1
_MAX_RTT = 10.0
CHECKSUMS = ("offloaded", "none")
"""UDP checksums towards uSID lists. "offloaded": no device on the way fills them in or looks at them (veth with its
default offloads), so plain sockets and runs work. "none": some device does, and would do so for the first address of
the list; datagrams go without a sum, one by one, and the iCRC alone guards them."""
MODES = ("usid", "plain")
"""What destinations are. "usid": lists. "plain": the peer's address; paths are the switches' own choice, by flow."""


@dataclass(frozen=True, kw_only=True)
class Steer:
    """Where a plane's packets to one peer go.

    Attributes:
        plane: number of the fabric's plane.
        src, dst: numbers of both hosts.
        paths: all ways there; several EVs may share one.
    """

    plane: int
    src: int
    dst: int
    paths: tuple[Path, ...]

    @property
    def lists(self) -> list[str]:
        """The uSID lists."""
        return [p.address for p in self.paths]


@dataclass(frozen=True, kw_only=True)
class FabricFile:
    """A fabric as its hosts see it.

    Attributes:
        name: of the fabric.
        shape: its wiring.
        trimming: switches trim packets instead of dropping them.
        checksum: one of `CHECKSUMS`.
        mode: one of `MODES`.
        rate_bps: of a host's port, bit/s; 0: unknown.
        mtu: of the links, bytes of IP packet; 0: unknown.
        base_rtt: round trip of a full packet in an idle fabric, hosts included, seconds; what its queues are sized
            for. 0: unknown.
        gateways: of a fabric of user-space switches: UDP socket (`127.70.255.1:45123`) of the switch that takes a
            host's packets, by the host's address.
        meeting: of such a fabric: first half of the IPv4 addresses at which hosts meet to make connections, as
            `127.70`; "": they meet at their own addresses.
    """

    name: str
    shape: Shape
    trimming: bool = False
    checksum: str = "offloaded"
    mode: str = "usid"
    rate_bps: int = 0
    mtu: int = 0
    base_rtt: float = 0.0
    gateways: Mapping[str, str] = field(default_factory=dict)
    meeting: str = ""

    def __post_init__(self) -> None:
        """Refuse unknown words and negative numbers (UsageError)."""
        if self.checksum not in CHECKSUMS:
            raise UsageError(f"checksum is one of {', '.join(CHECKSUMS)}, not {self.checksum!r}")
        if self.mode not in MODES:
            raise UsageError(f"mode is one of {', '.join(MODES)}, not {self.mode!r}")
        if self.rate_bps < 0 or self.mtu < 0 or not 0 <= self.base_rtt <= _MAX_RTT:
            raise UsageError(
                f"rate_bps, mtu and base_rtt are not negative, and base_rtt is at most {_MAX_RTT:g} s"
            )
        if self.meeting and not _MEETING.match(self.meeting):
            raise UsageError(f"meeting is the first half of an IPv4 address, as 127.70, not {self.meeting!r}")

    def addresses(self, host: int) -> list[str]:
        """Return a host's addresses, one a plane: what belongs into `SOFTMRC_PLANES`."""
        return [host_address(p, host) for p in range(1, self.shape.planes + 1)]

    def gateway(self, address: str) -> str | None:
        """Return the UDP socket of the switch that takes the packets of a host's address; None in a real network."""
        return self.gateways.get(address)

    def meeting_point(self, address: str) -> str | None:
        """Return where the host of an address is met to make a connection; None: at that address itself."""
        mine = self.whose(address)
        if not self.meeting or mine is None:
            return None
        return f"{self.meeting}.{mine[1] // 254}.{mine[1] % 254 + 1}"

    def whose(self, address: str) -> tuple[int, int] | None:
        """Return (plane, host) of an address; None when it is no host's of this fabric."""
        try:
            value = int(ipaddress.IPv6Address(address.partition("%")[0]))
        except ValueError:
            return None
        plane = (value >> (128 - BLOCK_BITS)) & 0xFFFF
        host = ((value >> (128 - BLOCK_BITS - 16)) & 0xFFFF) - 0x8000
        if not 1 <= plane <= self.shape.planes or not 0 <= host < self.shape.hosts:
            return None
        return (plane, host) if host_address(plane, host) == str(ipaddress.IPv6Address(value)) else None

    def steer(self, local: str, remote: str) -> Steer | None:
        """Return the ways from an own address to a peer's; None when the plan has none.

        That is so when either is no host of this fabric, when they are in different planes, and in mode "plain".
        """
        mine, its = self.whose(local), self.whose(remote)
        if self.mode != "usid" or mine is None or its is None or mine[0] != its[0]:
            return None
        ways = tuple(paths(self.shape, mine[0], mine[1], its[1]))
        return Steer(plane=mine[0], src=mine[1], dst=its[1], paths=ways) if ways else None

    def to_json(self) -> dict[str, Any]:
        """Return the file's content."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "name": self.name,
            "mode": self.mode,
            "trimming": self.trimming,
            "checksum": self.checksum,
            "rate_bps": self.rate_bps,
            "mtu": self.mtu,
            "base_rtt": self.base_rtt,
            "gateways": dict(self.gateways),
            "meeting": self.meeting,
            "blocks": [block(p) for p in range(1, self.shape.planes + 1)],
            "shape": self.shape.to_json(),
        }

    def write(self, file: File | str) -> None:
        """Write the file, whole or not at all."""
        target = File(file)
        part = target.with_name(f".{target.name}.part")
        part.write_text(json.dumps(self.to_json(), indent=1) + "\n", encoding="utf-8")
        part.replace(target)

    @classmethod
    def from_json(cls, data: Mapping[str, Any], origin: str = "the fabric file") -> FabricFile:
        """Read content.

        Args:
            data: as `to_json` made it.
            origin: its name, for messages.

        Raises:
            UsageError: not this format, a later version, or malformed.
        """
        if data.get("format") != FORMAT:
            raise UsageError(
                f"{origin} is no fabric file (its format is {data.get('format')!r}, not {FORMAT!r})"
            )
        if data.get("version") != VERSION:
            raise UsageError(
                f"{origin} has version {data.get('version')!r}; this softmrc reads version {VERSION}"
            )
        kinds: dict[str, type] = {
            "name": str, "mode": str, "trimming": bool, "checksum": str, "rate_bps": int, "mtu": int, "shape": dict
        }  # fmt: skip
        for name, kind in kinds.items():
            if type(data.get(name)) is not kind:
                raise UsageError(f"{origin}: {name} is missing or of the wrong type")
        gateways, meeting = data.get("gateways", {}), data.get("meeting", "")
        base_rtt = data.get("base_rtt", 0.0)
        if (
            not isinstance(meeting, str)
            or not isinstance(gateways, dict)
            or type(base_rtt) not in (int, float)
        ):
            raise UsageError(f"{origin}: gateways, meeting or base_rtt is of the wrong type")
        fabric = cls(
            **{f: data[f] for f in kinds if f != "shape"},
            shape=Shape.from_json(data["shape"]),
            gateways={str(k): str(v) for k, v in gateways.items()},
            meeting=meeting,
            base_rtt=base_rtt,
        )
        if data.get("blocks") != fabric.to_json()["blocks"]:
            raise UsageError(f"{origin} numbers its planes in another way than this softmrc does")
        return fabric

    @classmethod
    def read(cls, file: File | str) -> FabricFile:
        """Read a file.

        Raises:
            UsageError: it cannot be read, or is no fabric file.
        """
        try:
            data = json.loads(File(file).read_text(encoding="utf-8"))
        except OSError as error:
            raise UsageError(f"cannot read the fabric file {file}: {error.strerror}") from None
        except (ValueError, RecursionError):
            raise UsageError(f"{file} is no fabric file: not JSON") from None
        if not isinstance(data, dict):
            raise UsageError(f"{file} is no fabric file: not a JSON object")
        return cls.from_json(data, str(file))
