"""The knobs of the simple level, with the defaults of a software host (reference 16)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TypedDict

from softmrc.errors import UsageError

__all__ = ["DEFAULT_PMTU", "MAX_PMTU", "MIN_PMTU", "PMTU_STEP", "KnobArgs", "Knobs"]

MIN_PMTU, MAX_PMTU, PMTU_STEP = 256, 8960, 64
DEFAULT_PMTU = 8192
"""What an end offers that was not told: messages of 8 KiB and multiples leave no short packet, and the rest of a
9000-byte link would save next to nothing in headers."""
_BATCHING = ("auto", "gso", "mmsg")


class KnobArgs(TypedDict, total=False):
    """Keyword arguments of `Endpoint` that set a knob; see `Knobs` for their meaning."""

    hold_time: float
    pmtu: int | None
    timeout: int
    linear_cnt: int
    exp_cnt: int
    min_ack_timeout: float
    reorder_min_time: float
    base_rtt: float
    delay_mark: float
    probe_backoff_cap: float
    max_cwnd: int | None
    mpr: int
    max_wimm: int
    ev_count: int | None
    ev_backups: int
    ev_policy: str
    ev_run: int
    cc_algorithm: str
    trimming: bool | None
    icrc: bool
    fabric: str | None
    send_depth: int
    notification_depth: int
    keepalive: float
    linger: float
    rcvbuf: int
    sndbuf: int
    spin: float
    batching: str
    cpus: str | Sequence[int] | None
    numa: str | None
    device: str
    ev_profile: int | None
    cc_profile: int | None


@dataclass(frozen=True, kw_only=True)
class Knobs:
    """How connections of an endpoint behave. Times are seconds, sizes bytes."""

    hold_time: float = 30.0
    """No progress for this long ends the connection with `PeerError`; 0: use the retry counters instead."""
    pmtu: int | None = None
    """Payload of a full packet, 256 to 8960 and a multiple of 64 (the wire does not carry it, so two ends of ours
    need not keep to powers of two); None: the largest up to 8192 that both ends' planes can carry, 1408 on
    1500-byte links."""
    timeout: int = 12
    """ACK timeout, 1.024 us x 2^timeout, 0 to 24 (reference 5.7)."""
    linear_cnt: int = 7
    """Retries at a fixed interval, 0 to 7."""
    exp_cnt: int = 8
    """Further retries with doubling intervals, 0 to 25; 25: for ever."""
    min_ack_timeout: float = 0.004
    """The ACK timeout is never shorter than this."""
    reorder_min_time: float = 0.003
    """Packets overtaken for less than this are not taken for lost: scheduling noise of a host."""
    base_rtt: float = 1e-3
    """Round trip the window is sized for, and the floor of the measured one: on a host whose scheduler adds a
    millisecond, a window of the 50 us an idle loopback takes would starve the link (reference 16). In a known fabric
    whose own round trip is longer, that one holds."""
    delay_mark: float = 2e-3
    """Queueing delay that counts as a congestion mark where the fabric sets none; 0: marks alone count."""
    probe_backoff_cap: float = 0.1
    """Longest wait between probes of a path that is down: it is used again about this long after its return."""
    max_cwnd: int | None = None
    """Cap on bytes in flight; None: a quarter of the peer's receive buffers, and in a fabric of known rate no more than
    1.5 times that rate and round trip."""
    mpr: int = 8
    """Receive window in units of 128 packets, 1 to 32."""
    max_wimm: int = 128
    """Immediates in flight that this end accepts, 1 to 4096."""
    ev_count: int | None = None
    """Active entropy values of a connection; None: all of its planes."""
    ev_backups: int = 0
    """Further ones, of those that `ev_count` leaves, that take the place of active ones that are given up."""
    ev_policy: str = "bitmap"
    """Path policy by name."""
    ev_run: int = 0
    """Packets sent on one entropy value before the next, 1 to 4096; 0: one system call's worth, less where the
    window holds few of those. 1 sprays packet by packet, at a higher CPU cost."""
    cc_algorithm: str = "uet-1.0-nscc"
    """Congestion control by name; "" for none."""
    trimming: bool | None = None
    """The fabric trims: use the TRIMMABLE classes towards peers that generate trim NACKs. None: as the fabric file
    says; without one, no."""
    icrc: bool = True
    """False: ask to leave the iCRC of packets off. Done only towards peers that ask for it, too (`Connection.icrc`
    tells); then nothing of ours notices bytes that change on the way."""
    fabric: str | None = None
    """Path of a fabric file (`softmrc.srv6`): towards peers of its plan EVs become uSID lists, spread evenly over all
    paths. None: the file that the environment's SOFTMRC_FABRIC names, as inside a host of a lab; "": none."""
    send_depth: int = 128
    """Work requests a connection hands to the engine at a time; the rest waits in Python."""
    notification_depth: int = 1024
    """Unread notifications before the peer is held back."""
    keepalive: float = 5.0
    """An idle connection asks its peer for life this often; 0: never."""
    linger: float = 10.0
    """How long closing waits for the peer to acknowledge what was sent."""
    rcvbuf: int = 4 << 20
    """Receive buffer asked for each plane; the kernel may grant less."""
    sndbuf: int = 400_000
    """Send buffer asked for each socket: less than the usual queue of a device, so that a full one holds us back
    instead of dropping."""
    spin: float = 50e-6
    """The I/O thread looks for more this long before it sleeps; longer: lower latency, a busy core."""
    batching: str = "auto"
    """How datagrams cross the kernel: "gso" (runs, UDP_SEGMENT and UDP_GRO), "mmsg" (one by one); "auto": runs
    where the kernel can."""
    cpus: str | Sequence[int] | None = None
    """CPUs the I/O thread is kept on, "0-3,8" or numbers; None: wherever the system puts it."""
    numa: str | None = None
    """An interface: the same with the CPUs of the NUMA node it hangs on. An error where nobody knows the node."""
    device: str = "mrc0"
    """Device name: whose profiles `softmrc.ctl.Controller(device)` writes."""
    ev_profile: int | None = None
    """EV profile of the device, ONLINE; None: the EVs of the planes, all of them."""
    cc_profile: int | None = None
    """CC profile of the device, ONLINE; replaces `cc_algorithm`."""

    def __post_init__(self) -> None:
        """Refuse values no engine accepts.

        Raises:
            UsageError: a value is out of its range.
        """
        if self.pmtu is not None and (self.pmtu % PMTU_STEP or not MIN_PMTU <= self.pmtu <= MAX_PMTU):
            raise UsageError(
                f"pmtu must be a multiple of {PMTU_STEP} from {MIN_PMTU} to {MAX_PMTU}, not {self.pmtu}"
            )
        if self.batching not in _BATCHING:
            raise UsageError(f"batching must be one of {_BATCHING}, not {self.batching!r}")
        ranges: dict[str, tuple[float, float]] = {
            "hold_time": (0, 86400), "timeout": (0, 24), "linear_cnt": (0, 7), "exp_cnt": (0, 25),
            "min_ack_timeout": (0, 60), "reorder_min_time": (0, 60), "base_rtt": (1e-6, 10), "delay_mark": (0, 10),
            "probe_backoff_cap": (1e-3, 60), "mpr": (1, 32), "ev_backups": (0, 4096),
            "max_wimm": (1, 4096), "send_depth": (1, 65536), "notification_depth": (1, 1 << 20),
            "keepalive": (0, 86400), "linger": (0, 86400),
            "ev_run": (0, 4096), "spin": (0, 1), "rcvbuf": (4096, 1 << 30), "sndbuf": (4096, 1 << 30),
        }  # fmt: skip
        for name, (low, high) in ranges.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise UsageError(f"{name} must be {low:g} to {high:g}, not {value!r}")

    def ev_table(self) -> dict[str, int]:
        """Return the settings of the EV table that differ from those of a NIC."""
        return {"probe_backoff_cap_ns": int(self.probe_backoff_cap * 1e9)}

    @classmethod
    def of(cls, args: KnobArgs) -> Knobs:
        """Make knobs from keyword arguments.

        Raises:
            UsageError: an argument is unknown or out of range.
        """
        known = {f.name for f in fields(cls)}
        if unknown := sorted(set(args) - known):
            raise UsageError(f"unknown knob {unknown[0]!r}; there are {', '.join(sorted(known))}")
        return cls(**args)
