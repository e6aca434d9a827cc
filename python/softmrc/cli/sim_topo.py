"""`softmrc sim topo`: parts, power and failures of a fabric, by formula."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from softmrc.cli.output import guard, put, put_json
from softmrc.errors import UsageError

__all__ = ["topo"]

_ROWS = (
    ("planes", "planes", "{:,}"),
    ("tiers", "tiers", "{:,}"),
    ("port_gbps", "rate of a link, Gb/s", "{:g}"),
    ("radix", "ports of a switch", "{:,}"),
    ("nics", "NICs", "{:,}"),
    ("switches", "switches, all planes", "{:,}"),
    ("switches_by_tier", "switches of a plane, T0 up", "{}"),
    ("switches_per_nic", "switches a NIC", "{:.5f}"),
    ("links", "cables", "{:,}"),
    ("optics_ends_per_nic", "optics a NIC, at its rate", "{:,}"),
    ("optical_modules", "optical modules", "{:,.0f}"),
    ("switches_kw", "switches, kW", "{:,.1f}"),
    ("optics_kw", "optics, kW", "{:,.1f}"),
    ("fabric_w_per_nic", "fabric, W a NIC", "{:.1f}"),
    ("longest_path", "switches on the longest path", "{:,}"),
    ("nics_one_hop", "NICs one hop away", "{:,}"),
    ("loss_nic_link", "lost by a NIC-T0 link: of the NIC", "{:.2%}"),
    ("loss_fabric_link_in_plane", "lost by a T0-T1 link: of its plane", "{:.3%}"),
    ("loss_fabric_link_equal_planes", "  of a NIC, planes kept equal (MRC)", "{:.3%}"),
    ("loss_fabric_link_free_planes", "  of a NIC, planes may differ", "{:.3%}"),
    ("loss_t0", "lost by a T0: of its NICs", "{:.2%}"),
    ("loss_t1_in_plane", "lost by a T1: of its plane", "{:.3%}"),
    ("qp_share_of_t1", "QPs that use a given T1", "{:.2%}"),
)


def topo(
    asic_gbps: Annotated[int, typer.Option(help="What a switch forwards, Gb/s.")] = 51_200,
    nic_gbps: Annotated[int, typer.Option(help="What a NIC sends over all planes, Gb/s.")] = 800,
    planes: Annotated[int, typer.Option(help="Planes of the fabric.")] = 8,
    tiers: Annotated[int, typer.Option(help="Layers of switches, 1 to 4.")] = 2,
    evs: Annotated[int, typer.Option(help="EVs a QP sprays over.")] = 128,
    versus: Annotated[
        str, typer.Option(help="What to compare with: changes such as planes=1,tiers=3; none for nothing.")
    ] = "planes=1,tiers=3",
    optic_w: Annotated[float, typer.Option(help="One 800 Gb/s optical module, W.")] = 16.0,
    switch_w: Annotated[float, typer.Option(help="One switch without optics, W.")] = 940.0,
    copper_to_nic: Annotated[bool, typer.Option("--copper-to-nic", help="NIC cables are copper.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Count NICs, switches and optics of a multi-plane Clos, and what a failure takes.

    Formulae of the MRC paper, section 2 and figure 1; a full fabric, one link between any two switches, not
    oversubscribed. Compared by default with one plane of three tiers.

    \b
    softmrc sim topo
    softmrc sim topo --planes 4 --versus planes=8
    softmrc sim topo --asic-gbps 102400 --nic-gbps 1600 --planes 16 --tiers 2 --json

    Exit codes: 0 done, 2 wrong use.
    """
    with guard("sim topo", json):
        from softmrc.topology import ClosPlan, Power, compare

        chosen = {"asic_gbps": asic_gbps, "nic_gbps": nic_gbps, "planes": planes, "tiers": tiers, "evs": evs}
        plan = ClosPlan(**chosen)
        power = Power(optic_w=optic_w, switch_w=switch_w, copper_to_nic=copper_to_nic)
        made: dict[str, Any] = {"fabric": {**plan.describe(), **power.describe(plan)}}
        if versus != "none":
            made = compare(plan, ClosPlan(**{**chosen, **_changes(versus, set(chosen))}), power)
        if json:
            from softmrc.topology.power import SOURCES

            put_json({**made, "sources": SOURCES})
        else:
            put("\n".join(_lines(made)))


def _changes(text: str, known: set[str]) -> dict[str, int]:
    made = {}
    for part in text.split(","):
        key, _, value = part.strip().partition("=")
        key = key.replace("-", "_")
        if key not in known or not value.strip().isdecimal():
            raise UsageError(
                f"--versus takes changes such as planes=1,tiers=3 of {', '.join(sorted(known))}: {part!r}"
            )
        made[key] = int(value)
    return made


def _lines(made: dict[str, Any]) -> list[str]:
    fabric, versus = made["fabric"], made.get("versus")
    lines = [f"{'':38}{'fabric':>22}" + (f"{'versus':>24}" if versus else "")]
    for key, words, form in _ROWS:
        values = [_shown(form, table[key]) for table in (fabric, versus) if table is not None]
        lines.append(f"{words:38}{values[0]:>22}" + (f"{values[1]:>24}" if versus else ""))
    if versus:
        ratio = made["ratio"]
        lines.append(
            f"\nFor each NIC, fabric over versus: switches {ratio['switches_per_nic']:.4g}, "
            f"optics {ratio['optics_per_nic']:.4g}" + _power_ratio(ratio["fabric_w_per_nic"])
        )
    return lines


def _power_ratio(ratio: float | None) -> str:
    return "" if ratio is None else f", power {ratio:.4g}"


def _shown(form: str, value: Any) -> str:
    return " + ".join(f"{v:,}" for v in value) if isinstance(value, list) else form.format(value)
