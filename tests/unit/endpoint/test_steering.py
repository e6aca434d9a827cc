"""Which lists the EVs of a connection get, how many EVs a plane has, and what trimming and checksums become."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from softmrc.endpoint import Endpoint, steering
from softmrc.endpoint.steering import Steering, Ways, fabric_host, planes_of_host, sums_filled_in
from softmrc.errors import UsageError
from softmrc.srv6 import FabricFile, Shape
from softmrc.transfer.addresses import parse_destinations


def fabric(t1: int = 4, **more: Any) -> FabricFile:
    return FabricFile(name="lab", shape=Shape(planes=4, hosts=8, hosts_per_t0=4, t1_per_plane=t1), **more)


def pairs(
    evs: int = 16, planes: int = 4, src: int = 0, dst: int = 7
) -> list[tuple[str, str, int, list[int]]]:
    known = fabric()
    return [
        (known.addresses(src)[p], known.addresses(dst)[p], p + 1, [100 * p + i for i in range(evs)])
        for p in range(planes)
    ]


def test_evs_are_spread_evenly_over_all_paths_of_their_plane() -> None:
    ways = Steering(fabric()).ways(pairs())
    assert ways.whole
    for plane in range(1, 5):
        lists = Counter(address for _, address in ways.routes[plane])
        assert lists == {f"fc00:{plane}:1000:200{k}:1001:8007::": 4 for k in range(4)}


def test_the_first_evs_of_a_plane_take_different_paths() -> None:
    """Mail uses the first few EVs only; on one path all of it would stop with one switch."""
    ways = Steering(fabric()).ways(pairs())
    for plane in range(1, 5):
        assert len({address for _, address in ways.routes[plane][:4]}) == 4


def test_connections_do_not_all_begin_with_the_same_path() -> None:
    firsts = {Steering(fabric()).ways(pairs(planes=1)).routes[1][0][1] for _ in range(64)}
    assert len(firsts) == 4


def test_ways_are_named_by_their_switches() -> None:
    ways = Steering(fabric()).ways(pairs())
    by_list = dict(ways.routes[2])
    for (plane, ev), name in ways.names.items():
        if plane == 2:
            t1 = by_list[ev].split(":")[3]
            assert name == f"p2 t0-0 t1-{int(t1, 16) - 0x2000} t0-1"


def test_below_one_t0_there_is_one_way_for_all_evs() -> None:
    ways = Steering(fabric()).ways(pairs(dst=3))
    assert {address for _, address in ways.routes[1]} == {"fc00:1:1000:8003::"}


def test_strangers_get_no_lists() -> None:
    strange = [("fd00::1", "fd00::2", 1, [1, 2]), ("fc00:1:8000::", "fd00::2", 2, [3])]
    assert Steering(fabric()).ways(strange) == Ways(evs={1: [1, 2], 2: [3]})
    assert Steering(None).ways(pairs()) == Ways(evs={plane: evs for _, _, plane, evs in pairs()})


def test_a_connection_that_is_only_partly_steered_is_not_trimmed_by_itself() -> None:
    known = Steering(fabric(trimming=True))
    mixed = [*pairs(planes=1), ("fd00::1", "fd00::2", 2, [1])]
    assert not known.trimming(None, known.ways(mixed))
    assert known.trimming(None, known.ways(pairs()))
    assert not known.trimming(False, known.ways(pairs()))
    assert known.trimming(True, known.ways(mixed))
    assert not Steering(fabric()).trimming(None, Steering(fabric()).ways(pairs()))


@pytest.mark.parametrize(
    ("t1", "wanted", "evs"), [(4, 16, 16), (4, 2, 4), (6, 16, 18), (32, 16, 32), (3, 16, 18)]
)
def test_there_is_an_ev_for_each_path_and_the_same_number_of_each(t1: int, wanted: int, evs: int) -> None:
    assert Steering(fabric(t1)).evs("fc00:1:8000::", wanted) == evs
    assert Steering(fabric(t1)).evs("fd00::1", wanted) == wanted


def test_the_host_with_most_paths_decides_in_a_fabric_made_by_hand() -> None:
    links = [(f"h{h}", f"p1.t0-{h}") for h in range(3)]
    links += [(f"p1.t0-{h}", f"p1.t1-{k}") for h in range(3) for k in range(3) if (h, k) != (1, 2)]
    known = FabricFile(name="x", shape=Shape(planes=1, hosts=3, links=tuple(links)))
    assert Steering(known).evs("fc00:1:8000::", 1) == 3
    assert Steering(known).evs("fc00:1:8001::", 1) == 2


def test_planes_of_the_fabric_are_opened_with_what_it_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steering, "sums_filled_in", lambda address: False)
    given = {"address": "fc00:1:8000::", "udp_port": 7, "evs": None}
    assert Steering(fabric()).plane(given, 2) == {**given, "evs": 4}
    assert Steering(fabric(checksum="none")).plane(given, 2) == {**given, "evs": 4, "udp_checksum": False}
    assert Steering(fabric(mode="plain")).plane(given, 2) == given
    assert Steering(None).plane(given, 2) == given
    assert Steering(fabric()).plane({"address": "fd00::1"}, 2) == {"address": "fd00::1"}


def test_a_device_that_fills_sums_in_gets_packets_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """limits.md 4: the kernel's sum is that of the first address of the list."""
    monkeypatch.setattr(steering, "sums_filled_in", lambda address: True)
    assert Steering(fabric()).plane({"address": "fc00:1:8000::"}, 4)["udp_checksum"] is False


@pytest.mark.parametrize("address", ["127.0.0.1", "fd00::1", "fc00:1:8000::"])
def test_loopback_and_strange_addresses_have_no_device_that_fills_in(address: str) -> None:
    assert not sums_filled_in(address)


def test_the_environment_names_fabric_and_planes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fabric().write(tmp_path / "f.json")
    monkeypatch.setenv("SOFTMRC_FABRIC", str(tmp_path / "f.json"))
    monkeypatch.setenv("SOFTMRC_PLANES", "127.0.0.1, 127.0.0.2")
    assert Steering.of(None).fabric == fabric()
    assert Steering.of("").fabric is None
    assert planes_of_host() == ("127.0.0.1", "127.0.0.2")
    with Endpoint() as ep:
        assert [p.address for p in ep.planes] == ["127.0.0.1", "127.0.0.2"]


def test_a_fabric_file_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOFTMRC_FABRIC", "nowhere.json")
    with pytest.raises(UsageError, match="nowhere"):
        Endpoint("127.0.0.1")


def test_hosts_of_the_fabric_have_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fabric_host("h3") == []
    fabric().write(tmp_path / "f.json")
    monkeypatch.setenv("SOFTMRC_FABRIC", str(tmp_path / "f.json"))
    assert fabric_host("h3") == fabric().addresses(3)
    assert fabric_host("host3") == []
    assert [(d.host, d.port) for d in parse_destinations("h3:5000")] == [
        (a, 5000) for a in fabric().addresses(3)
    ]
    with pytest.raises(UsageError, match="h0 to h7"):
        fabric_host("h8")
