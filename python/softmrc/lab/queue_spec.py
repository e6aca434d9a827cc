"""What the queue of a port does with packets, in numbers: thresholds from the rate and a round trip, DSCPs.

The same for the kernel's queues (queues.py) and the user-space switch. Thresholds are those recommended for the
protocol in multiples of the plane's bandwidth-delay product (BDP), as in the simulator.
"""

from __future__ import annotations

from dataclasses import dataclass

from softmrc.errors import UsageError

__all__ = ["Dscps", "QueueSpec", "base_rtt"]

_HOST_S = 1e-3
"""What the scheduler of a software host adds to a round trip (the `base_rtt` of an endpoint); there are two hosts."""
_HEADERS = 14  # Ethernet; the shaper counts it


@dataclass(frozen=True, kw_only=True)
class Dscps:
    """DSCPs of the classes, the same everywhere in a fabric (reference 3.1)."""

    trimmable: int = 4
    trimmable_retx: int = 8
    trimmed: int = 12
    trimmed_lasthop: int = 16
    control: int = 46

    def high(self) -> tuple[int, ...]:
        """Return those that go first."""
        return self.trimmed, self.trimmed_lasthop, self.control

    def may_be_trimmed(self) -> tuple[int, ...]:
        """Return those that are cut instead of dropped."""
        return self.trimmable, self.trimmable_retx


def base_rtt(rate_bps: int, mtu: int, links: int = 4) -> float:
    """Return the round trip that queues and windows are sized for, seconds.

    Args:
        rate_bps: of the lines, bit/s.
        mtu: of the lines, bytes; full packets are stored on every link.
        links: of the longest path.
    """
    return links * (mtu + _HEADERS) * 8 / rate_bps + 2 * _HOST_S


@dataclass(frozen=True, kw_only=True)
class QueueSpec:
    """One egress port.

    Attributes:
        rate_bps: of the line, whole packets with Ethernet headers.
        mtu: of the line, bytes.
        last_hop: a host is at the other end: no marks, an own DSCP for trimmed packets, a higher threshold for them.
        data_bytes: the data class drops beyond.
        control_bytes: the control class drops beyond.
        ecn_min, ecn_max: data queued at which marking begins, and at which every packet is marked; 0, 0: never.
        trim_bytes: data queued beyond which packets that may be trimmed are; 0: never.
        trimmed_dscp: what they get.
        dscps: of the fabric.
    """

    rate_bps: int
    mtu: int
    last_hop: bool
    data_bytes: int
    control_bytes: int
    ecn_min: int = 0
    ecn_max: int = 0
    trim_bytes: int = 0
    trimmed_dscp: int = 12
    dscps: Dscps = Dscps()

    @classmethod
    def of_switch(
        cls,
        rate_bps: int,
        mtu: int,
        *,
        last_hop: bool,
        trimming: bool = True,
        ecn: bool = True,
        rtt: float | None = None,
        dscps: Dscps | None = None,
    ) -> QueueSpec:
        """Return the queue of a switch's port.

        Args:
            rate_bps: of the line, bit/s.
            mtu: of the line, bytes.
            last_hop: a host is at the other end.
            trimming: packets are trimmed.
            ecn: packets are marked, except on the last hop.
            rtt: base round trip, seconds; None: `base_rtt`.
            dscps: of the fabric; None: the defaults.

        Raises:
            UsageError: a rate or MTU that no line has.
        """
        if rate_bps < 1 or mtu < 1:
            raise UsageError(f"a line of {rate_bps} bit/s with packets of {mtu} bytes cannot be")
        codes = dscps or Dscps()
        bdp = rate_bps / 8 * (base_rtt(rate_bps, mtu) if rtt is None else rtt)

        def of(factor: float) -> int:
            return max(int(factor * bdp), mtu + _HEADERS)

        marks = ecn and not last_hop
        return cls(
            rate_bps=rate_bps,
            mtu=mtu,
            last_hop=last_hop,
            data_bytes=max(of(4.0), 8 * (mtu + _HEADERS)),
            control_bytes=max(of(4.0), 8 * (mtu + _HEADERS)),
            ecn_min=of(0.2) if marks else 0,
            ecn_max=of(0.8) if marks else 0,
            trim_bytes=of(1.5 if last_hop else 1.0) if trimming else 0,
            trimmed_dscp=codes.trimmed_lasthop if last_hop else codes.trimmed,
            dscps=codes,
        )
