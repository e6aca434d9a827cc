"""The fabric as a picture: every link and node is there, load and faults can be told."""

from __future__ import annotations

import io
import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from rich.console import Console

from softmrc.lab import LabSpec
from softmrc.lab.draw_svg import draw_svg
from softmrc.lab.draw_text import draw_text
from softmrc.lab.look import LinkLoad, Look
from softmrc.lab.plan import make_plan

RATE = 100_000_000
SVG = "{http://www.w3.org/2000/svg}"


def looks(
    spec: LabSpec, busy: dict[str, int], dead: dict[str, str], hurt: dict[str, tuple[str, str]]
) -> list[LinkLoad]:
    """Links of a lab that sent `busy` bytes upwards within a second."""
    links = tuple(make_plan(spec).links)
    zero = {link.name: (1000, 2000) for link in links}
    rates = {"host": RATE, "fabric": RATE}
    then = Look(5.0, zero, {}, {}, links, rates)
    now = Look(6.0, zero | {n: (1000 + b, 2000) for n, b in busy.items()}, dead, hurt, links, rates)
    return now.since(then)


@pytest.fixture
def loads() -> list[LinkLoad]:
    return looks(
        LabSpec(planes=2, t0=2, t1=2, hosts=4),
        {"h0.p1": 12_500_000, "p1.t0-0.t1-0": 6_250_000},
        {"p2.t0-0.t1-1": "set down"},
        {"h3.p2": ("hurt", "h3.p2 loss 5%")},
    )


def by_name(loads: list[LinkLoad]) -> dict[str, LinkLoad]:
    return {load.link.name: load for load in loads}


def test_rates_are_differences_of_counters(loads: list[LinkLoad]) -> None:
    found = by_name(loads)
    assert (found["h0.p1"].up_bps, found["h0.p1"].down_bps) == (100e6, 0)
    assert found["h0.p1"].share == 1
    assert found["p1.t0-0.t1-0"].share == 0.5
    assert found["h1.p1"].share == 0


def test_states_say_what_is_broken(loads: list[LinkLoad]) -> None:
    found = by_name(loads)
    assert {n: (f.state, f.why) for n, f in found.items() if f.state != "up"} == {
        "p2.t0-0.t1-1": ("down", "set down"),
        "h3.p2": ("hurt", "h3.p2 loss 5%"),
    }


def test_a_link_that_a_fault_holds_down_is_told_by_the_fault() -> None:
    (load,) = [
        one
        for one in looks(LabSpec(), {}, {"h0.p1": "no carrier"}, {"h0.p1": ("down", "h0 down")})
        if one.link.name == "h0.p1"
    ]
    assert (load.state, load.why) == ("down", "h0 down")


def test_counters_that_began_anew_are_no_negative_rate() -> None:
    assert min(one.up_bps for one in looks(LabSpec(), {"h0.p1": -500}, {}, {})) == 0


def test_the_svg_has_every_link_and_node_and_is_well_formed(loads: list[LinkLoad]) -> None:
    root = ElementTree.fromstring(draw_svg(loads, "lab <x> & y"))
    titles = [t.text or "" for t in root.iter(f"{SVG}title")]
    for load in loads:
        assert sum(t.startswith(f"{load.link.name}: ") for t in titles) == 1
    assert {"p1.t0-0", "p2.t1-1", "h3"} <= set(titles)
    assert any("set down" in t for t in titles)


def test_load_is_width_and_faults_are_dashed(loads: list[LinkLoad]) -> None:
    root = ElementTree.fromstring(draw_svg(loads, "x"))
    lines = {}
    for group in root.iter(f"{SVG}g"):
        line, title = group.find(f"{SVG}line"), group.find(f"{SVG}title")
        if line is not None and title is not None:
            lines[(title.text or "").partition(":")[0]] = line
    width = {name: float(line.get("stroke-width", "0")) for name, line in lines.items()}
    assert width["h0.p1"] > width["p1.t0-0.t1-0"] > width["h1.p1"]
    assert {n for n, line in lines.items() if line.get("stroke-dasharray")} == {"p2.t0-0.t1-1", "h3.p2"}


def test_nodes_of_a_tier_do_not_overlap() -> None:
    picture = draw_svg(looks(LabSpec(planes=1, t0=4, t1=8, hosts=32), {}, {}, {}), "x")
    boxes = [
        tuple(map(float, b)) for b in re.findall(r"<rect x='([\d.]+)' y='([\d.]+)' width='58.0'", picture)
    ]
    for y in {b[1] for b in boxes}:
        row = sorted(b[0] for b in boxes if b[1] == y)
        assert all(b - a >= 58 for a, b in pairwise(row))


def test_the_terminal_shows_planes_switches_hosts_and_faults(loads: list[LinkLoad]) -> None:
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(draw_text(loads, "lab x"))
    text = console.export_text()
    assert "plane 1" in text
    assert "plane 2" in text
    assert re.search(r"t0-0 +▅▁ +▁▁ +h0 █▁  h1 ▁▁", text)
    assert "✗✗" in text
    assert "h3.p2 loss 5%: h3.p2" in text
    assert "sent by hosts 100 Mbit/s" in text


def test_three_tiers_are_drawn_too() -> None:
    spec = LabSpec(planes=1, t0=4, t1=4, t2=4, pods=2, hosts=8)
    picture = draw_svg(looks(spec, {}, {}, {}), "x")
    assert all(f">t2-{i}<" in picture for i in range(4))
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(draw_text(looks(spec, {}, {}, {}), "lab x"))
    assert "t2-3" in console.export_text()
