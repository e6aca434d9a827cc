"""The fabric as FRR and SONiC configuration: golden files, and that lists work over what they say."""

from __future__ import annotations

import ipaddress
import json
import re
from pathlib import Path

import pytest

from softmrc.errors import UsageError
from softmrc.lab import LabSpec
from softmrc.lab.export import FORMATS, export_fabric, link_address
from softmrc.lab.plan import Plan, make_plan
from softmrc.srv6 import paths

GOLDEN = Path(__file__).parents[2] / "data" / "lab"
SPEC = LabSpec(planes=2, t0=2, t1=2, hosts=4, ua=True, plain="ecmp")


@pytest.fixture(scope="module")
def plan() -> Plan:
    return make_plan(SPEC)


@pytest.mark.parametrize("node", ["p1.t0-0", "p2.t1-1"])
@pytest.mark.parametrize("form", ["frr", "sonic"])
def test_switches_read_as_the_golden_files(plan: Plan, form: str, node: str) -> None:
    golden = GOLDEN / f"{node}{FORMATS[form]}"
    assert export_fabric(plan, form, node) == {node: golden.read_text()}


def _walk(plan: Plan, source: str, address: str, form: str) -> list[str]:
    """Follow a destination from a switch: own SID first, then the longest static route, as the text says."""
    at, passed = source, []
    value = int(ipaddress.IPv6Address(address))
    texts = export_fabric(plan, form)
    while at.startswith("p"):
        own, routes = (_read_frr if form == "frr" else _read_sonic)(texts[at])
        passed.append(at)
        if ipaddress.IPv6Address(value) in own:
            value = (value >> 96 << 96) | ((value << 16) & ((1 << 96) - 1))
        hops = [hop for net, hop in routes if ipaddress.IPv6Address(value) in net]
        assert hops, f"{at} has no route to {ipaddress.IPv6Address(value)}"
        at = _who(plan, hops[0])
    return [*passed, at]


def _who(plan: Plan, address: str) -> str:
    for link in plan.links:
        for side, node in (("a", link.a_node), ("b", link.b_node)):
            if link_address(link, side) == address:
                return node
    raise AssertionError(f"{address} is of no link")


def _read_frr(text: str) -> tuple[ipaddress.IPv6Network, list[tuple[ipaddress.IPv6Network, str]]]:
    own = re.search(r"sid (\S+) locator MAIN behavior uN", text)
    assert own is not None
    routes = re.findall(r"^ipv6 route (\S+) (\S+) \S+$", text, re.MULTILINE)
    return ipaddress.IPv6Network(own[1]), [(ipaddress.IPv6Network(net), hop) for net, hop in routes]


def _read_sonic(text: str) -> tuple[ipaddress.IPv6Network, list[tuple[ipaddress.IPv6Network, str]]]:
    config = json.loads(text)
    (own,) = [key.partition("|")[2] for key, sid in config["SRV6_MY_SIDS"].items() if sid["action"] == "uN"]
    routes = [
        (ipaddress.IPv6Network(key.partition("|")[2]), hop)
        for key, route in config["STATIC_ROUTE"].items()
        for hop in route["nexthop"].split(",")
    ]
    return ipaddress.IPv6Network(own), routes


@pytest.mark.parametrize("form", ["frr", "sonic"])
def test_every_list_passes_its_switches_and_ends_at_its_host(plan: Plan, form: str) -> None:
    for plane in (1, 2):
        for way in paths(SPEC.shape, plane, 0, 3):
            names = [f"p{plane}.{s}" for s in way.switches]
            assert _walk(plan, names[0], way.address, form) == [*names, "h3"]


def test_ports_have_the_two_addresses_of_their_link(plan: Plan) -> None:
    used: set[str] = set()
    for text in export_fabric(plan, "frr").values():
        used |= set(re.findall(r"ipv6 address (\S+)/127", text))
    fabric = [link for link in plan.links if link.kind == "fabric"]
    hosts = [link for link in plan.links if link.kind == "host"]
    assert used == {link_address(x, s) for x in fabric for s in "ab"} | {link_address(x, "b") for x in hosts}


def test_switches_and_formats_that_are_not_there_are_refused(plan: Plan) -> None:
    with pytest.raises(UsageError, match=r"p1\.t0-0"):
        export_fabric(plan, "frr", "h0")
    with pytest.raises(UsageError, match="frr, sonic"):
        export_fabric(plan, "junos")
