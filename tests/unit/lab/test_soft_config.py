"""What the user-space switch is told is what the plan says."""

from __future__ import annotations

from ipaddress import IPv6Address

import pytest

from softmrc.lab.condition import LineState
from softmrc.lab.plan import make_plan, sid_address
from softmrc.lab.queue_spec import QueueSpec, base_rtt
from softmrc.lab.soft_config import fault_of, soft_planes
from softmrc.lab.spec import LabSpec


def _spec(**fields: object) -> LabSpec:
    return LabSpec(**{"planes": 2, "t0": 2, "t1": 2, "hosts": 4, "rate_bps": 200_000_000, **fields})  # type: ignore[arg-type]


def test_nodes_have_their_usids_and_ports_come_in_pairs() -> None:
    plan = make_plan(_spec())
    first, second = soft_planes(plan)
    assert first.plane == 1
    assert len(first.nodes) == 8
    for plane in (first, second):
        for name, (block, usid, host) in zip(plane.nodes, plane.config["nodes"], strict=True):
            address = int(IPv6Address(sid_address(plan.nodes[name].node, plane.plane)))
            assert (block, usid) == (address >> 96, address >> 80 & 0xFFFF)
            assert host == name.startswith("h")
        ports = plane.config["ports"]
        assert len(ports) == 2 * len(plane.links)
        for number, (low, high, reverse, rate, _, _) in enumerate(ports):
            assert reverse == number ^ 1
            assert ports[reverse][:2] == (high, low)
            assert rate == 200_000_000
    assert first.port("p1.t0-1.t1-0", "up") % 2 == 0
    assert first.port("p1.t0-1.t1-0", "down") == first.port("p1.t0-1.t1-0", "up") + 1


def test_every_route_of_the_plan_leads_to_the_neighbour_it_names() -> None:
    plan = make_plan(_spec(plain="ecmp", ua=True))
    plane = soft_planes(plan)[1]
    ports = plane.config["ports"]
    seen = {(node, usid): (adjacency, out) for node, usid, adjacency, out in plane.config["routes"]}
    planned = 0
    for number, name in enumerate(plane.nodes):
        for route in plan.nodes[name].routes if not name.startswith("h") else []:
            usid = int(IPv6Address(route.dst.partition("/")[0])) >> 80 & 0xFFFF
            adjacency, out = seen[number, usid]
            assert not adjacency
            by_device = {dev: link for link in plan.at[name] for node, dev, _ in link.ends() if node == name}
            links = [by_device[hop.dev] for hop in route.hops]
            others = [link.b_node if link.a_node == name else link.a_node for link in links]
            assert [plane.nodes[ports[p][1]] for p in out] == others
            assert all(ports[p][0] == number for p in out)
            planned += 1
    chosen = [key for key, (adjacency, _) in seen.items() if adjacency]
    assert planned + len(chosen) == len(seen)
    # One chosen link for each end at a switch: 4 fabric links with two of them, 4 host links with one.
    assert len(chosen) == 12
    to_remote = seen[plane.nodes.index("p2.t0-0"), 0x8003][1]
    assert len(to_remote) == 2


@pytest.mark.parametrize("trimming", [True, False])
def test_queues_are_those_of_the_kernel(trimming: bool) -> None:
    plan = make_plan(_spec(trimming=trimming, fabric_rate_bps=100_000_000))
    plane = soft_planes(plan)[0]
    rules = plane.config["rules"]

    def rule(link: str, direction: str) -> dict[str, int]:
        found: dict[str, int] = rules[plane.config["ports"][plane.port(link, direction)][5]]
        return found

    for link, way, last, rate in (
        ("h0.p1", "down", True, 200_000_000), ("p1.t0-0.t1-1", "up", False, 100_000_000)
    ):  # fmt: skip
        spec = QueueSpec.of_switch(
            rate, 9000, last_hop=last, trimming=trimming, rtt=base_rtt(100_000_000, 9000)
        )
        for field, value in rule(link, way).items():
            assert value == getattr(spec, field)
    assert "trim_bytes" not in rule("h0.p1", "up")


def test_faults_in_numbers() -> None:
    assert fault_of(LineState(), False, None) == {
        "down": False, "hole": False, "loss_ppm": 0, "corrupt_ppm": 0, "rate_bps": 0
    }  # fmt: skip
    assert fault_of(LineState(loss=1.0), False, 100)["hole"] is True
    assert fault_of(LineState(loss=0.05, corrupt=1e-6), False, 100)["loss_ppm"] == 50_000
    assert fault_of(LineState(loss=0.05, corrupt=1e-6), False, 100)["corrupt_ppm"] == 1
    assert fault_of(LineState(rate=0.1), True, 200_000_000) == {
        "down": True, "hole": False, "loss_ppm": 0, "corrupt_ppm": 0, "rate_bps": 20_000_000
    }  # fmt: skip
    assert fault_of(LineState(rate=0.1), False, None)["rate_bps"] == 0
