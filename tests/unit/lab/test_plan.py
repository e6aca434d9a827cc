"""What will stand in the kernel, before it does."""

from __future__ import annotations

import itertools

import pytest

from softmrc.errors import UsageError
from softmrc.lab.names import namespace, parse_node
from softmrc.lab.plan import NodePlan, Plan, make_plan
from softmrc.lab.spec import LabSpec
from softmrc.srv6 import paths

THREE = LabSpec(planes=1, t0=4, t1=4, t2=4, pods=2, hosts=8)


def by_prefix(plan: NodePlan) -> dict[str, list[str]]:
    return {r.dst: [h.dev for h in r.hops] for r in plan.routes}


def test_sizes_and_names() -> None:
    plan = make_plan(LabSpec())
    assert (len(plan.nodes), len(plan.links)) == (8 + 4 * 6, 4 * (8 + 8))
    assert plan.links[0].name == "h0.p1"
    assert plan.links[-1].name == "p4.t0-1.t1-3"
    assert {n for n, p in plan.nodes.items() if not p.forwards} == {f"h{i}" for i in range(8)}
    assert namespace("lab", "p2.t0-5") == "lab-p2t0-5"
    for odd in ("x", "h", "p1.t3-0", "h1.p1", ""):
        with pytest.raises(UsageError):
            parse_node(odd)


def test_addresses_of_hardware_differ_and_say_the_link_local_ones() -> None:
    plan = make_plan(LabSpec())
    macs = [link.mac(side) for link in plan.links for side in "ab"]
    assert len(set(macs)) == len(macs)
    link = plan.by_link["h3.p2"]
    assert link.link_local("a").startswith("fe80::5c:2ff:fe")
    hop = plan.nodes["h3"].neighbours[1]
    assert (hop.via, hop.dev, hop.mac) == (link.link_local("b"), "p2", link.mac("b"))


def test_a_switch_knows_its_neighbours_and_itself_and_planes_do_not_mix() -> None:
    plan = make_plan(LabSpec(planes=2, t0=2, t1=2, hosts=4))
    routes = by_prefix(plan.nodes["p2.t0-1"])
    assert routes == {
        "fc00:2:8002::/48": ["h2"], "fc00:2:8003::/48": ["h3"],
        "fc00:2:2000::/48": ["t1-0"], "fc00:2:2001::/48": ["t1-1"],
        # Bare addresses of hosts on other T0s: by one T1 each, spread.
        "fc00:2:8000::/48": ["t1-0"], "fc00:2:8001::/48": ["t1-1"],
    }  # fmt: skip
    assert [(s.dst, s.action, s.dev) for s in plan.nodes["p2.t0-1"].sids] == [
        ("fc00:2:1001::/48", "End", "sr0")
    ]
    assert [(r.dst, r.src) for r in plan.nodes["h1"].routes] == [
        ("fc00:1::/32", "fc00:1:8001::"), ("fc00:2::/32", "fc00:2:8001::"),
    ]  # fmt: skip
    assert [a for a in plan.nodes["h1"].addresses] == [
        ("p1", "fc00:1:8001::/128"),
        ("p2", "fc00:2:8001::/128"),
    ]


def test_ecmp_goes_over_all_that_lead_there() -> None:
    plan = make_plan(LabSpec(planes=1, t0=2, t1=3, hosts=2, plain="ecmp"))
    assert by_prefix(plan.nodes["p1.t0-0"])["fc00:1:8001::/48"] == ["t1-0", "t1-1", "t1-2"]
    assert by_prefix(plan.nodes["p1.t1-1"])["fc00:1:8001::/48"] == ["t0-1"]


def follow(plan: Plan, address_prefix: str, at: str, to: str) -> list[str]:
    """Walk by the routes for a bare address."""
    way = []
    while at != to:
        (dev,) = by_prefix(plan.nodes[at])[address_prefix]
        link = next(x for x in plan.at[at] if dev == (x.a_dev if x.a_node == at else x.b_dev))
        at = link.b_node if link.a_node == at else link.a_node
        way.append(at)
        assert len(way) < 9, way
    return way


@pytest.mark.parametrize("spec", [LabSpec(), LabSpec(planes=1, t0=3, t1=2, hosts=7), THREE])
def test_every_bare_address_is_reached_by_a_shortest_way(spec: LabSpec) -> None:
    plan = make_plan(spec)
    for a, b in itertools.permutations(range(spec.hosts), 2):
        short = {p.switches for p in paths(spec.shape, 1, a, b)}
        first = f"p1.t0-{a // spec.shape.hosts_per_t0}"
        way = (first, *follow(plan, f"fc00:1:{0x8000 + b:x}::/48", first, f"h{b}")[:-1])
        assert tuple(s.removeprefix("p1.") for s in way) in short


def test_every_path_of_the_fabric_is_routed_hop_by_hop() -> None:
    plan = make_plan(THREE)
    for a, b in itertools.permutations(range(8), 2):
        for path in paths(THREE.shape, 1, a, b):
            for here, there in itertools.pairwise(path.switches):
                sid = plan.nodes[f"p1.{there}"].sids[0].dst
                assert by_prefix(plan.nodes[f"p1.{here}"])[sid] == [there]
            assert by_prefix(plan.nodes[f"p1.{path.switches[-1]}"])[f"fc00:1:{0x8000 + b:x}::/48"] == [
                f"h{b}"
            ]


def test_options_add_their_own_and_nothing_else() -> None:
    bare = make_plan(LabSpec(planes=1, t0=2, t1=2, hosts=2))
    full = make_plan(LabSpec(planes=1, t0=2, t1=2, hosts=2, ua=True, encap=True, anyip=True))
    for name, plan in full.nodes.items():
        assert set(bare.nodes[name].routes) <= set(plan.routes)
        assert set(bare.nodes[name].addresses) <= set(plan.addresses)
    assert [s.action for s in full.nodes["p1.t0-0"].sids] == ["End", "End.X", "End.X", "End.X"]
    assert [s.action for s in full.nodes["h0"].sids] == ["End.DT6", "encap", "encap"]
    assert full.nodes["h0"].local == [("fc00:1:8000::/48", "lo")]
    assert "segs fc00:1:1000:2001:1001:9001::" in full.nodes["h0"].sids[2].words


def test_fabrics_made_by_hand_and_one_switch_a_plane() -> None:
    links = (("h0", "p1.t0-0"), ("h1", "p1.t0-0"), ("h1", "p2.t0-0"), ("h0", "p2.t0-0"))
    plan = make_plan(LabSpec(planes=2, hosts=2, links=links))
    assert sorted(plan.nodes) == ["h0", "h1", "p1.t0-0", "p2.t0-0"]
    assert {link.name for link in plan.links} == {"h0.p1", "h1.p1", "h0.p2", "h1.p2"}
    with pytest.raises(UsageError, match="one port a plane"):
        make_plan(LabSpec(planes=1, hosts=1, links=(("h0", "p1.t0-0"), ("h0", "p1.t0-1"))))
