"""Which ranks share a host: numbers of hosts, and circles that go from host to host as seldom as possible."""

from __future__ import annotations

from softmrc.collectives.placement import Placement


def test_hosts_are_numbered_as_they_occur_and_who_shares_nothing_is_alone() -> None:
    assert Placement.of(["b", "a", "b", "", "", "a"]).hosts == (0, 1, 0, 2, 3, 1)
    assert Placement.of(["x"] * 3).hosts == (0, 0, 0)
    assert Placement.of(["", ""]) == Placement.apart(2)


def test_near_is_one_host_and_even_several_with_as_many_ranks() -> None:
    near = {"x": False, "xx": True, "xxx": True, "xy": False, "xyx": False}
    even = {"x": False, "xx": False, "xy": False, "xyx": False, "xyyx": True, "xyzxyz": True, "xxyyyx": True}
    even |= {"xxyyyy": False, "xxyyz": False}
    assert {hosts: Placement.of(hosts).near for hosts in near} == near
    assert {hosts: Placement.of(hosts).even for hosts in even} == even


def test_circles_go_host_by_host_from_any_rank() -> None:
    where = Placement.of("babcab")
    assert where.members(0) == [0, 2, 5]
    assert where.circle() == [0, 2, 5, 1, 4, 3]
    assert where.circle(4) == [4, 1, 3, 5, 0, 2]
    assert Placement.apart(5).circle(3) == [3, 4, 0, 1, 2]
    assert Placement.of("xxxx").circle(2) == [2, 3, 0, 1]
