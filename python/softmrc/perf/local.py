"""What one end of a measurement decides for itself, and the ranges of it, named as the options of the command."""

from __future__ import annotations

from dataclasses import dataclass

from softmrc.endpoint.knobs import MAX_PMTU, MIN_PMTU, PMTU_STEP, Knobs
from softmrc.errors import UsageError
from softmrc.perf.plan import BIN_MS

__all__ = ["Local"]

_MAX_DELAY_MARK_US = 10_000_000
_BATCHING = ("auto", "gso", "mmsg")


@dataclass(frozen=True, kw_only=True)
class Local:
    """What one end decides for itself."""

    planes: tuple[str, ...]
    """Local addresses; a server without any uses those its client reached."""
    evs: int = 16
    """Entropy values of each plane, 1 to 4096."""
    spin_us: int = 50
    """Microseconds to look for more before sleeping."""
    progress: str = "caller"
    """"caller": the traffic's own thread drives the transport; "thread": a second one does."""
    batching: str = "auto"
    pmtu: int | None = None
    """Payload of a full packet, 256 to 8960; None: the largest that fits."""
    fabric: str | None = None
    """Path of a fabric file; None: the one SOFTMRC_FABRIC names; "": none. Its paths are used unless `via` is given."""
    via: tuple[str, ...] = ()
    """SRv6 uSID lists that end at the peer; the EVs are spread over them."""
    backups: int = 0
    """Of the EVs of each plane, so many are spares: used when one in use is given up."""
    delay_mark_us: int = int(Knobs.delay_mark * 1e6)
    """Queueing delay that counts as a congestion mark where the fabric sets none, microseconds; 0: none does."""
    ecn_steering: bool = True
    """False (experiment): a mark does not take its EV out of turn; congestion control hears it all the same."""
    bin_ms: int = BIN_MS
    """Width of the bins in which arriving bytes are counted at this end, milliseconds."""
    rcvbuf: int = Knobs.rcvbuf
    sndbuf: int = Knobs.sndbuf
    cpus: tuple[int, ...] = ()
    """Where the thread that drives the transport is kept; none: not pinned."""
    icrc: bool = True
    """False: ask to leave the iCRC off; done when the other end asks for it, too."""

    def __post_init__(self) -> None:
        """Refuse what cannot be.

        Raises:
            UsageError: out of range.
        """
        for option, value, low, high, unit in (
            ("--evs", self.evs, 1, 4096, "EVs of each plane"),
            ("--spin-us", self.spin_us, 0, 1_000_000, "microseconds"),
            ("--backups", self.backups, 0, self.evs - 1, "EVs of each plane, since one is in use"),
            ("--delay-mark-us", self.delay_mark_us, 0, _MAX_DELAY_MARK_US, "microseconds"),
            ("--bin-ms", self.bin_ms, 1, 10_000, "milliseconds"),
        ):
            if not low <= value <= high:
                raise UsageError(f"{option} is {low} to {high} {unit}, not {value}")
        if self.progress not in ("caller", "thread"):
            raise UsageError(f"--progress is caller or thread, not {self.progress!r}")
        if self.batching not in _BATCHING:
            raise UsageError(f"--batching is one of {', '.join(_BATCHING)}, not {self.batching!r}")
        if self.pmtu is not None and (self.pmtu % PMTU_STEP or not MIN_PMTU <= self.pmtu <= MAX_PMTU):
            raise UsageError(
                f"--mtu is a multiple of {PMTU_STEP} from {MIN_PMTU} to {MAX_PMTU} bytes of payload, not {self.pmtu}"
            )
