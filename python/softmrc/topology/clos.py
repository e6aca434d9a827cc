"""A multi-plane folded Clos with one link between any two switches that are connected.

Decides how many NICs, switches and optics such a fabric has and what share of its capacity a failure takes. Leaves
watts to `power` and packets to the simulator. Formulae: MRC paper section 2 and figure 1, with `r` ports a switch:
2 (r/2)^n NICs and (2n-1) (r/2)^(n-1) switches a plane, n tiers.
"""

from __future__ import annotations

from dataclasses import dataclass

from softmrc.errors import UsageError

__all__ = ["ClosPlan"]

_MAX_TIERS = 4


@dataclass(frozen=True, kw_only=True)
class ClosPlan:
    """A full fabric of `planes` equal planes, not oversubscribed.

    Raises:
        UsageError: a value is out of its range, or the ports of the switch do not divide evenly.
    """

    asic_gbps: int = 51_200
    """What a switch forwards, Gb/s, 1 to 10,000,000."""
    nic_gbps: int = 800
    """What a NIC sends, Gb/s over all planes, 1 to 100,000."""
    planes: int = 8
    """Planes a NIC is spread over, 1 to 64."""
    tiers: int = 2
    """Layers of switches, 1 to 4."""
    evs: int = 128
    """EVs a QP sprays over at once, 1 to 65,536; only `qp_share_of_t1` depends on it."""

    def __post_init__(self) -> None:
        """Check ranges and that the radix comes out whole and even."""
        for name, low, high in (
            ("asic_gbps", 1, 10_000_000),
            ("nic_gbps", 1, 100_000),
            ("planes", 1, 64),
            ("tiers", 1, _MAX_TIERS),
            ("evs", 1, 65_536),
        ):
            value = getattr(self, name)
            if not low <= value <= high:
                raise UsageError(f"{name} is {low} to {high}, not {value}")
        ports, rest = divmod(self.asic_gbps * self.planes, self.nic_gbps)
        if rest or ports < 2 or ports % 2:
            raise UsageError(
                f"{self.asic_gbps} Gb/s make {self.asic_gbps * self.planes / self.nic_gbps:g} ports of "
                f"{self.nic_gbps / self.planes:g} Gb/s: a Clos needs an even, whole number; change the planes or "
                "one of the rates"
            )

    @property
    def radix(self) -> int:
        """Ports of a switch, each of one plane's rate."""
        return self.asic_gbps * self.planes // self.nic_gbps

    @property
    def port_gbps(self) -> float:
        """Rate of every link, Gb/s."""
        return self.nic_gbps / self.planes

    @property
    def uplinks(self) -> int:
        """Links of a T0 to the tier above; 0 with one tier."""
        return self.radix // 2 if self.tiers > 1 else 0

    @property
    def nics(self) -> int:
        """NICs of the whole fabric; each has a port in every plane."""
        return int(2 * (self.radix // 2) ** self.tiers)

    @property
    def switches_by_tier(self) -> tuple[int, ...]:
        """Switches of one plane, from T0 up; the top tier needs half as many as the others."""
        half = self.radix // 2
        full = int(2 * half ** (self.tiers - 1))
        return (*([full] * (self.tiers - 1)), half ** (self.tiers - 1))

    @property
    def t0(self) -> int:
        """T0 switches of one plane."""
        return self.switches_by_tier[0]

    @property
    def t1(self) -> int:
        """T1 switches of one plane, 0 with one tier."""
        return self.switches_by_tier[1] if self.tiers > 1 else 0

    @property
    def t2(self) -> int:
        """T2 switches of one plane, 0 with less than three tiers."""
        return self.switches_by_tier[2] if self.tiers > 2 else 0

    @property
    def switches(self) -> int:
        """Switches of all planes."""
        return self.planes * sum(self.switches_by_tier)

    @property
    def switches_per_nic(self) -> float:
        """Switches of all planes for each NIC; the same for any number of planes."""
        return self.switches / self.nics

    @property
    def longest_path(self) -> int:
        """Switches on the longest path."""
        return 2 * self.tiers - 1

    @property
    def nics_one_hop(self) -> int:
        """NICs under the same T0, itself included."""
        return self.radix if self.tiers == 1 else self.radix // 2

    @property
    def optics_ends_per_nic(self) -> int:
        """Transceivers for each NIC, counted at the NIC's full rate: two ends of each layer of links."""
        return 2 * self.tiers

    @property
    def links(self) -> int:
        """Cables of all planes."""
        return self.nics * self.planes * self.tiers

    @property
    def loss_fabric_link_in_plane(self) -> float:
        """Share of one plane's capacity out of a T0 that one T0-T1 link carries; 1 with one tier."""
        return 1.0 / self.uplinks if self.uplinks else 1.0

    @property
    def loss_fabric_link_free_planes(self) -> float:
        """Share of a NIC's capacity that one T0-T1 link takes where planes may carry unequal load."""
        return self.loss_fabric_link_in_plane / self.planes

    @property
    def loss_fabric_link_equal_planes(self) -> float:
        """Share of a NIC's capacity under MRC's rule of equal planes: the worst plane caps them all."""
        return self.loss_fabric_link_in_plane

    @property
    def loss_nic_link(self) -> float:
        """Share of a NIC's capacity that one NIC-T0 link takes."""
        return 1.0 / self.planes

    @property
    def loss_t0(self) -> float:
        """Share of the capacity of the NICs below it that one T0 takes."""
        return 1.0 / self.planes

    @property
    def loss_t1_in_plane(self) -> float:
        """Share of one plane's capacity out of every T0 below it that one T1 takes; 0 with one tier."""
        return 1.0 / self.uplinks if self.uplinks else 0.0

    @property
    def qp_share_of_t1(self) -> float:
        """Probability that a QP's EVs, distinct and equal in each plane, use a given T1 of the source's."""
        return min(1.0, self.evs / (self.planes * self.uplinks)) if self.uplinks else 0.0

    def describe(self) -> dict[str, int | float | list[int]]:
        """Return every figure under the name of its property, as JSON takes it."""
        figures: dict[str, int | float | list[int]] = {}
        for name, value in vars(type(self)).items():
            if isinstance(value, property):
                figure = getattr(self, name)
                figures[name] = list(figure) if isinstance(figure, tuple) else figure
        inputs = {name: getattr(self, name) for name in ("asic_gbps", "nic_gbps", "planes", "tiers", "evs")}
        return {**inputs, **figures}
