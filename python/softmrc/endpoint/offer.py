"""What two ends tell each other before a connection exists (reference 10.1).

Everything read here may be hostile.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from softmrc.endpoint.knobs import MAX_PMTU, MIN_PMTU, PMTU_STEP
from softmrc.errors import PeerError

__all__ = [
    "CAPABILITIES",
    "VERSIONS",
    "Agreement",
    "Hello",
    "MailboxOffer",
    "Offer",
    "PlaneOffer",
    "QpOffer",
    "decode",
    "encode",
]

# Protocol versions of the set-up, bit 0 = V1.
VERSIONS = 1
# What this end can do; a peer may require any of them.
CAPABILITIES = ("mailbox-1",)
_MAX_PLANES = 31
_MAX_TEXT = 256


def encode(message: Mapping[str, Any]) -> bytes:
    """Make the bytes of a message."""
    return json.dumps(message, separators=(",", ":")).encode()


def decode(data: bytes) -> dict[str, Any]:
    """Read a message.

    Raises:
        PeerError: not a JSON object with a type.
    """
    try:
        message = json.loads(data)
    except (ValueError, RecursionError):
        message = None
    if not isinstance(message, dict) or not isinstance(message.get("type"), str):
        raise PeerError("the peer sent something that is no set-up message; it does not speak softmrc")
    return message


def _bad(field: str) -> PeerError:
    return PeerError(f"the peer's set-up message is malformed: {field}")


def _int(data: Mapping[str, Any], field: str, low: int, high: int) -> int:
    value = data.get(field)
    if type(value) is not int or not low <= value <= high:
        raise _bad(field)
    return value


def _text(data: Mapping[str, Any], field: str) -> str:
    value = data.get(field)
    if not isinstance(value, str) or len(value) > _MAX_TEXT or not value.isprintable():
        raise _bad(field)
    return value


def _bool(data: Mapping[str, Any], field: str) -> bool:
    value = data.get(field)
    if not isinstance(value, bool):
        raise _bad(field)
    return value


def _object(data: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    value = data.get(field)
    if not isinstance(value, dict):
        raise _bad(field)
    return value


def _list(data: Mapping[str, Any], field: str, most: int) -> list[Any]:
    value = data.get(field)
    if not isinstance(value, list) or len(value) > most:
        raise _bad(field)
    return value


def _texts(data: Mapping[str, Any], field: str) -> tuple[str, ...]:
    return tuple(_text({field: item}, field) for item in _list(data, field, 64))


@dataclass(frozen=True, kw_only=True)
class Hello:
    """First message of each end: nothing secret is in it."""

    software: str
    versions: int
    capabilities: tuple[str, ...]
    requires: tuple[str, ...]
    nonce: str
    auth: bool
    """True: a shared token is set and must be proven."""

    def to_json(self) -> dict[str, Any]:
        """Return the message."""
        return {"type": "hello", **asdict(self)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Hello:
        """Read the message; PeerError when malformed."""
        nonce = _text(data, "nonce")
        if len(nonce) != 64 or any(c not in "0123456789abcdef" for c in nonce):
            raise _bad("nonce")
        return cls(
            software=_text(data, "software"),
            versions=_int(data, "versions", 0, (1 << 64) - 1),
            capabilities=_texts(data, "capabilities"),
            requires=_texts(data, "requires"),
            nonce=nonce,
            auth=_bool(data, "auth"),
        )


@dataclass(frozen=True, kw_only=True)
class PlaneOffer:
    """A plane of the sender."""

    number: int
    address: str
    udp_port: int
    mtu: int
    rcvbuf: int

    @classmethod
    def from_json(cls, data: Any) -> PlaneOffer:
        """Read one entry; PeerError when malformed."""
        if not isinstance(data, dict):
            raise _bad("planes")
        try:
            ip = ipaddress.ip_address(_text(data, "address").partition("%")[0])
        except ValueError:
            raise _bad("address") from None
        if ip.is_unspecified or ip.is_multicast:
            raise _bad("address")
        return cls(
            number=_int(data, "number", 1, _MAX_PLANES),
            address=str(ip),
            udp_port=_int(data, "udp_port", 1, 65535),
            mtu=_int(data, "mtu", 0, 1 << 24),
            rcvbuf=_int(data, "rcvbuf", 0, 1 << 40),
        )


@dataclass(frozen=True, kw_only=True)
class QpOffer:
    """A queue pair of the sender: its number and the PSN it will start with."""

    qpn: int
    psn: int

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> QpOffer:
        """Read one; PeerError when malformed."""
        return cls(qpn=_int(data, "qpn", 3, 0xFFFFFF), psn=_int(data, "psn", 0, 0xFFFFFF))


@dataclass(frozen=True, kw_only=True)
class MailboxOffer:
    """The ring the sender reads control messages from."""

    addr: int
    rkey: int
    slots: int
    slot_size: int

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> MailboxOffer:
        """Read it; PeerError when malformed."""
        return cls(
            addr=_int(data, "addr", 0, (1 << 64) - 1),
            rkey=_int(data, "rkey", 0, (1 << 32) - 1),
            slots=_int(data, "slots", 8, 1024),
            slot_size=_int(data, "slot_size", 1024, 1 << 20),
        )


@dataclass(frozen=True, kw_only=True)
class Offer:
    """Everything a peer needs to talk to us; sent only to one that has proven the token."""

    name: str
    generation: str
    planes: tuple[PlaneOffer, ...]
    data: QpOffer
    mail: QpOffer
    pmtu: int
    """Largest payload the sender wants, bytes."""
    mpr_dest: int
    max_wimm_dest: int
    dynamic_mpr: bool
    trim_nack: bool
    svc_time: bool
    mailbox: MailboxOffer
    window: Mapping[str, int] | None
    icrc_off: bool = False
    """The sender asks to leave the iCRC off; absent from older versions, and from others' altogether."""

    def keeps_icrc(self, other: Offer) -> bool:
        """Return whether packets between the two carry an iCRC: unless both ask for none."""
        return not (self.icrc_off and other.icrc_off)

    def to_json(self) -> dict[str, Any]:
        """Return the message."""
        return {"type": "offer", **asdict(self)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Offer:
        """Read the message; PeerError when malformed."""
        planes = tuple(PlaneOffer.from_json(p) for p in _list(data, "planes", _MAX_PLANES))
        if not planes or len({p.number for p in planes}) != len(planes):
            raise _bad("planes")
        window = data.get("window")
        if window is not None:
            window = _object(data, "window")
            limits = {"addr": 64, "rkey": 32, "length": 63}
            window = {name: _int(window, name, 0, (1 << bits) - 1) for name, bits in limits.items()}
        return cls(
            name=_text(data, "name"),
            generation=_text(data, "generation"),
            planes=planes,
            data=QpOffer.from_json(_object(data, "data")),
            mail=QpOffer.from_json(_object(data, "mail")),
            pmtu=_int(data, "pmtu", MIN_PMTU, MAX_PMTU),
            mpr_dest=_int(data, "mpr_dest", 1, 32),
            max_wimm_dest=_int(data, "max_wimm_dest", 1, 4096),
            dynamic_mpr=_bool(data, "dynamic_mpr"),
            trim_nack=_bool(data, "trim_nack"),
            svc_time=_bool(data, "svc_time"),
            mailbox=MailboxOffer.from_json(_object(data, "mailbox")),
            window=window,
            icrc_off=_bool(data, "icrc_off") if "icrc_off" in data else False,
        )


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Which planes talk to each other, the payload of a full packet, and whether there is an iCRC."""

    pairs: tuple[tuple[int, int], ...]
    """Number at the connecting end, number at the listening end; in messages always in this order."""
    pmtu: int
    icrc: bool = True

    def to_json(self, kind: str) -> dict[str, Any]:
        """Return the message."""
        return {"type": kind, "pairs": [list(p) for p in self.pairs], "pmtu": self.pmtu, "icrc": self.icrc}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], initiator: Offer, responder: Offer) -> Agreement:
        """Read the message; PeerError when it is malformed or does not fit the offers."""
        left = {p.number: p.address for p in initiator.planes}
        right = {p.number: p.address for p in responder.planes}
        pairs = []
        for item in _list(data, "pairs", _MAX_PLANES):
            if not isinstance(item, list) or len(item) != 2 or not all(type(n) is int for n in item):
                raise _bad("pairs")
            a, b = item
            # Each plane once, and both of one family.
            if a not in left or b not in right or (":" in left.pop(a)) != (":" in right.pop(b)):
                raise _bad("pairs")
            pairs.append((a, b))
        pmtu = _int(data, "pmtu", MIN_PMTU, min(initiator.pmtu, responder.pmtu))
        if not pairs or pmtu % PMTU_STEP:
            raise _bad("pairs" if not pairs else "pmtu")
        icrc = _bool(data, "icrc") if "icrc" in data else True
        if icrc is not initiator.keeps_icrc(responder):
            raise _bad("icrc")
        return cls(pairs=tuple(pairs), pmtu=pmtu, icrc=icrc)
