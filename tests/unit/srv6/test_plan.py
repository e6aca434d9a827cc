"""Numbers of switches and hosts, uSID lists, and which ways there are."""

from __future__ import annotations

import ipaddress
import json
from pathlib import Path as File

import pytest

from softmrc.errors import UsageError
from softmrc.srv6 import FabricFile, Path, Shape, block, describe, host_address, path, paths, usid

TWO_TIERS = Shape(planes=4, hosts=8, hosts_per_t0=4, t1_per_plane=4)
THREE_TIERS = Shape(planes=2, hosts=16, hosts_per_t0=2, tiers=3, pods=2, t1_per_pod=2, t2_per_plane=4)


def shifted(address: str) -> str:
    """What a uN switch makes of a destination: its own uSID, the 16 bits after the block, is taken out."""
    value = int(ipaddress.IPv6Address(address))
    rest = (value << 16) & ((1 << 96) - 1)
    return str(ipaddress.IPv6Address((value >> 96 << 96) | rest))


def first_usid(address: str) -> int:
    return (int(ipaddress.IPv6Address(address)) >> 80) & 0xFFFF


def test_blocks_and_addresses_are_those_of_the_plan() -> None:
    assert block(1) == "fc00:1::/32"
    assert block(31) == "fc00:1f::/32"
    assert host_address(10, 3) == "fc00:a:8003::"
    assert path(2, [usid("t0", 0), usid("t1", 3), usid("t0", 1)], 7) == "fc00:2:1000:2003:1001:8007::"


def test_six_usids_fill_an_address_and_seven_do_not_fit() -> None:
    six = path(1, [0x1000, 0x2000, 0x3000, 0x2001, 0x1001], 1)
    assert ipaddress.IPv6Address(six) == ipaddress.IPv6Address("fc00:1:1000:2000:3000:2001:1001:8001")
    with pytest.raises(UsageError, match="6 fit"):
        path(1, [0x1000] * 6, 1)


@pytest.mark.parametrize(
    ("kind", "index", "number"),
    [("t0", 5, 0x1005), ("t1", 0, 0x2000), ("t2", 9, 0x3009), ("host", 7, 0x8007)],
)
def test_a_usid_tells_whose_it_is(kind: str, index: int, number: int) -> None:
    assert usid(kind, index) == number
    assert describe(number) == (f"h{index}" if kind == "host" else f"{kind}-{index}")


@pytest.mark.parametrize(("kind", "index"), [("t0", 0x1000), ("t3", 0), ("host", -1), ("host", 0x6000)])
def test_there_are_only_so_many_numbers(kind: str, index: int) -> None:
    with pytest.raises(UsageError):
        usid(kind, index)


@pytest.mark.parametrize("plane", [0, 32])
def test_planes_count_from_1_to_31(plane: int) -> None:
    with pytest.raises(UsageError, match="1 to 31"):
        block(plane)


@pytest.mark.parametrize("shape", [TWO_TIERS, THREE_TIERS])
def test_shifting_a_list_passes_its_switches_and_ends_at_the_host(shape: Shape) -> None:
    for plane in range(1, shape.planes + 1):
        for src in range(shape.hosts):
            for dst in range(shape.hosts):
                for way in paths(shape, plane, src, dst):
                    at, passed = way.address, []
                    while first_usid(at) < 0x8000:
                        passed.append(describe(first_usid(at)))
                        at = shifted(at)
                    assert tuple(passed) == way.switches
                    assert at == host_address(plane, dst)


def test_two_tiers_have_a_way_over_each_t1() -> None:
    ways = paths(TWO_TIERS, 3, 0, 7)
    assert [w.switches for w in ways] == [("t0-0", f"t1-{k}", "t0-1") for k in range(4)]
    assert [w.switches for w in paths(TWO_TIERS, 3, 0, 3)] == [("t0-0",)]
    assert ways[1].name == "p3 t0-0 t1-1 t0-1"


def test_three_tiers_stay_in_the_pod_where_they_can_and_on_a_rail_where_they_cannot() -> None:
    inside, across = paths(THREE_TIERS, 1, 0, 2), paths(THREE_TIERS, 1, 0, 15)
    assert [w.switches for w in inside] == [("t0-0", "t1-0", "t0-1"), ("t0-0", "t1-1", "t0-1")]
    assert [w.switches[1:4] for w in across] == [
        ("t1-0", "t2-0", "t1-2"), ("t1-0", "t2-1", "t1-2"), ("t1-1", "t2-2", "t1-3"), ("t1-1", "t2-3", "t1-3"),
    ]  # fmt: skip


def test_a_fabric_made_by_hand_has_the_ways_its_links_give() -> None:
    links = [(f"h{h}", f"p1.t0-{h}") for h in range(2)]
    links += [("p1.t0-0", "p1.t1-0"), ("p1.t0-0", "p1.t1-1"), ("p1.t0-1", "p1.t1-1")]
    by_hand = Shape(planes=1, hosts=2, links=tuple(links))
    assert [w.switches for w in paths(by_hand, 1, 0, 1)] == [("t0-0", "t1-1", "t0-1")]
    apart = Shape(planes=1, hosts=2, links=tuple(links[:4]))
    assert paths(apart, 1, 0, 1) == []


def test_a_host_reaches_itself_without_a_switch() -> None:
    assert paths(TWO_TIERS, 1, 5, 5) == [Path(1, (), "fc00:1:8005::")]


@pytest.mark.parametrize(("plane", "src", "dst"), [(0, 0, 1), (5, 0, 1), (1, 8, 0), (1, 0, -1)])
def test_ways_between_what_is_not_there_are_refused(plane: int, src: int, dst: int) -> None:
    with pytest.raises(UsageError, match="no "):
        paths(TWO_TIERS, plane, src, dst)


@pytest.mark.parametrize(
    "wrong",
    [
        {"planes": 0, "hosts": 2}, {"planes": 1, "hosts": 4}, {"planes": 1, "hosts": 0},
        {"planes": 1, "hosts": 8, "tiers": 3, "pods": 3, "t1_per_pod": 1, "t2_per_plane": 1},
        {"planes": 1, "hosts": 2, "links": (("p1.t0-0", "h0"),)},
    ],
)  # fmt: skip
def test_what_cannot_be_wired_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        Shape(**wrong)  # type: ignore[arg-type]


# --- the fabric file ----------------------------------------------------------------------------------------


def fabric(**more: object) -> FabricFile:
    return FabricFile(name="lab", shape=TWO_TIERS, **more)  # type: ignore[arg-type]


def test_a_fabric_file_comes_back_as_it_was(tmp_path: File) -> None:
    for kind in (
        fabric(trimming=True, rate_bps=200_000_000, mtu=9000),
        fabric(checksum="none", mode="plain"),
        fabric(gateways={"fc00:1:8000::": "127.70.255.1:4000"}, meeting="127.70"),
        FabricFile(
            name="by-hand", shape=Shape(planes=1, hosts=2, links=(("h0", "p1.t0-0"), ("h1", "p1.t0-0")))
        ),
    ):
        kind.write(tmp_path / "fabric.json")
        assert FabricFile.read(tmp_path / "fabric.json") == kind
    assert [f.name for f in tmp_path.iterdir()] == ["fabric.json"]


def test_addresses_tell_plane_and_host() -> None:
    for host in range(8):
        for plane, address in enumerate(fabric().addresses(host), 1):
            assert fabric().whose(address) == (plane, host)


@pytest.mark.parametrize(
    "address",
    ["fc00:5:8000::", "fc00:1:8008::", "fc00:1:1000::", "fc00:1:8000::1", "fd00::1", "10.0.0.1", "x"],
)
def test_addresses_of_others_are_nobodys(address: str) -> None:
    assert fabric().whose(address) is None


def test_lists_lead_inside_a_plane_only() -> None:
    steer = fabric().steer("fc00:2:8000::", "fc00:2:8007::")
    assert steer is not None
    assert steer.lists == [f"fc00:2:1000:200{k}:1001:8007::" for k in range(4)]
    assert fabric().steer("fc00:1:8000::", "fc00:2:8007::") is None
    assert fabric().steer("fc00:2:8000::", "fd00::7") is None
    assert fabric(mode="plain").steer("fc00:2:8000::", "fc00:2:8007::") is None


def test_hosts_of_a_user_space_fabric_meet_on_the_loopback() -> None:
    soft = fabric(gateways={"fc00:1:8003::": "127.70.255.1:4000"}, meeting="127.70")
    assert soft.gateway("fc00:1:8003::") == "127.70.255.1:4000"
    assert soft.gateway("fc00:2:8003::") is None
    assert soft.meeting_point("fc00:4:8003::") == "127.70.0.4"
    assert fabric().meeting_point("fc00:4:8003::") is None
    assert soft.meeting_point("fd00::1") is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": "other"}, "no fabric file"), ({"version": 2}, "version"), ({"trimming": 1}, "trimming"),
        ({"shape": {"planes": "4"}}, "whole numbers"), ({"shape": {"planes": 4, "hosts": 8, "odd": 1}}, "whole"),
        ({"blocks": ["fd00::/32"]}, "numbers its planes"), ({"checksum": "right"}, "checksum"),
        ({"meeting": "127"}, "meeting"), ({"gateways": []}, "gateways"), ({"shape": {"planes": 4}}, "shape"),
    ],
)  # fmt: skip
def test_a_malformed_file_says_what_is_wrong_with_it(
    tmp_path: File, change: dict[str, object], words: str
) -> None:
    data = {**fabric().to_json(), **change}
    (tmp_path / "f.json").write_text(json.dumps(data))
    with pytest.raises(UsageError, match=words):
        FabricFile.read(tmp_path / "f.json")


@pytest.mark.parametrize("text", ["", "[]", "{", '"fabric"'])
def test_what_is_no_json_object_is_no_fabric_file(tmp_path: File, text: str) -> None:
    (tmp_path / "f.json").write_text(text)
    with pytest.raises(UsageError, match="no fabric file"):
        FabricFile.read(tmp_path / "f.json")


def test_a_missing_file_is_named(tmp_path: File) -> None:
    with pytest.raises(UsageError, match=r"gone\.json"):
        FabricFile.read(tmp_path / "gone.json")
