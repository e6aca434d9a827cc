"""What two ends of a measurement tell each other: planes, queue pairs, memory. Everything read may be hostile."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from softmrc.endpoint.knobs import MAX_PMTU, MIN_PMTU
from softmrc.endpoint.offer import PlaneOffer, QpOffer
from softmrc.errors import PeerError
from softmrc.perf.plan import MAX_REGION, flag, integer

__all__ = ["PerfOffer", "icrc_agreed", "read_toward"]

_MAX_PLANES = 31


@dataclass(frozen=True, kw_only=True)
class PerfOffer:
    """One end."""

    planes: tuple[PlaneOffer, ...]
    qps: tuple[QpOffer, ...]
    addr: int
    """First address of the memory the peer may write to."""
    rkey: int
    length: int
    pmtu: int
    """Largest payload wanted, bytes."""
    mpr_dest: int
    host: str
    """Equal at both ends when they run on one machine."""
    icrc_off: bool = False
    """This end asks to leave the iCRC off."""

    def keeps_icrc(self, other: PerfOffer) -> bool:
        """Return whether packets between the two carry an iCRC: unless both ask for none."""
        return not (self.icrc_off and other.icrc_off)

    def to_json(self) -> dict[str, Any]:
        """Return it for the peer."""
        return {**asdict(self), "qps": [[q.qpn, q.psn] for q in self.qps]}

    @classmethod
    def from_json(cls, data: Any, qps: int) -> PerfOffer:
        """Read what a peer sent.

        Args:
            data: anything.
            qps: how many queue pairs there must be.

        Raises:
            PeerError: malformed.
        """
        if not isinstance(data, Mapping):
            raise PeerError("the peer's offer is malformed")
        planes, pairs, host = data.get("planes"), data.get("qps"), data.get("host")
        if not isinstance(planes, list) or not 1 <= len(planes) <= _MAX_PLANES:
            raise PeerError(f"the peer offers no planes, or more than {_MAX_PLANES}")
        if not isinstance(pairs, list) or len(pairs) != qps:
            raise PeerError(f"the peer does not offer the {qps} queue pairs that were agreed")
        if not isinstance(host, str) or len(host) > 64:
            raise PeerError("the peer's offer is malformed: host")
        found = tuple(PlaneOffer.from_json(p) for p in planes)
        if len({p.number for p in found}) != len(found):
            raise PeerError("the peer offers one plane twice")
        return cls(
            planes=found,
            qps=tuple(_qp(p) for p in pairs),
            addr=integer(data, "addr", 0, (1 << 64) - 1),
            rkey=integer(data, "rkey", 0, (1 << 32) - 1),
            length=integer(data, "length", 1, MAX_REGION),
            pmtu=integer(data, "pmtu", MIN_PMTU, MAX_PMTU),
            mpr_dest=integer(data, "mpr_dest", 1, 32),
            host=host,
            icrc_off=flag(data, "icrc_off") if "icrc_off" in data else False,
        )


def icrc_agreed(*, client: bool, server: bool) -> dict[str, Any]:
    """Return whether packets carry an iCRC and which ends asked for none, as results tell it.

    Args:
        client: it asked for none.
        server: the same of it.
    """
    asked = [name for name, off in (("client", client), ("server", server)) if off]
    return {"icrc": len(asked) < 2, "icrc_off_asked": asked}


def read_toward(data: Any) -> list[str]:
    """Return the addresses a client means by its planes, in their order; often none.

    Raises:
        PeerError: malformed.
    """
    if not isinstance(data, list) or len(data) > _MAX_PLANES or not all(isinstance(a, str) for a in data):
        raise PeerError("the peer's request is malformed: toward")
    try:
        return [str(ipaddress.ip_address(a[:64])) for a in data]
    except ValueError:
        raise PeerError("the peer's request is malformed: toward") from None


def _qp(data: Any) -> QpOffer:
    if not isinstance(data, list) or len(data) != 2:
        raise PeerError("the peer's offer is malformed: qps")
    return QpOffer.from_json({"qpn": data[0], "psn": data[1]})
