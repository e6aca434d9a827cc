"""CPUs: as people write them, of a NUMA node, and where the I/O thread of an endpoint is kept."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.endpoint.conftest import Opener

from softmrc import UsageError, cpus
from softmrc.cpus import Pinned, cpu_list, parse_cpus, wanted_cpus

FIRST = min(os.sched_getaffinity(0))


@given(st.sets(st.integers(0, 8191), min_size=1, max_size=40))
def test_lists_go_there_and_back(numbers: set[int]) -> None:
    assert parse_cpus(cpu_list(list(numbers))) == tuple(sorted(numbers))


def test_lists_as_people_write_them() -> None:
    assert parse_cpus("0-3,8") == (0, 1, 2, 3, 8)
    assert parse_cpus(" 2 , 1-2") == (1, 2)
    assert (cpu_list([3, 1, 2, 7]), cpu_list([])) == ("1-3,7", "")


@pytest.mark.parametrize("text", ["", "x", "1-", "-1", "3-1", "1,,2", "8192", "0-99999", "1.5", "٣", "0;1"])
def test_lists_that_are_none(text: str) -> None:
    with pytest.raises(UsageError, match="0-3,8"):
        parse_cpus(text)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host with two nodes, of which the second is out of reach, and four interfaces."""
    for node, text in ((0, str(FIRST)), (1, "4000-4003")):
        (tmp_path / "node" / f"node{node}").mkdir(parents=True)
        (tmp_path / "node" / f"node{node}" / "cpulist").write_text(text + "\n")
    for name, node in (("eth0", "0"), ("eth1", "1"), ("eth2", "-1"), ("veth0", None)):
        (tmp_path / "net" / name / "device").mkdir(parents=True)
        if node is not None:
            (tmp_path / "net" / name / "device" / "numa_node").write_text(node + "\n")
    monkeypatch.setattr(cpus, "_NET", tmp_path / "net")
    monkeypatch.setattr(cpus, "_NODES", tmp_path / "node")
    return tmp_path


@pytest.mark.usefixtures("host")
def test_the_node_of_an_interface() -> None:
    assert wanted_cpus(None, "eth0") == (FIRST,)
    assert [cpus.node_of(name) for name in ("eth0", "eth1", "eth2", "veth0", "no")] == [
        0,
        1,
        None,
        None,
        None,
    ]
    for name, words in (
        ("eth1", "NUMA node 1 with CPUs 4000-4003, and this process may use none"),
        ("eth2", "nobody knows which NUMA node eth2 hangs on"),
        ("veth0", "nobody knows"),
        ("eth9", "is none here: eth0, eth1, eth2, veth0"),
        ("../net/eth0", "is none here"),
        ("", "is none here"),
    ):
        with pytest.raises(UsageError, match=words):
            wanted_cpus(None, name)


def test_what_is_asked_for() -> None:
    assert wanted_cpus(None, None) == ()
    assert wanted_cpus([FIRST], None) == wanted_cpus(str(FIRST), None) == (FIRST,)
    with pytest.raises(UsageError, match="give one of them"):
        wanted_cpus("0", "eth0")
    with pytest.raises(UsageError, match="CPU 8000-8001 is not among those"):
        wanted_cpus([FIRST, 8000, 8001], None)


def masks() -> list[str]:
    """Return what each thread of this process may use, in the kernel's words."""
    return sorted(
        line.split()[1]
        for task in Path("/proc/self/task").iterdir()
        for line in (task / "status").read_text().splitlines()
        if line.startswith("Cpus_allowed_list:")
    )


def test_an_endpoint_keeps_its_thread_only_when_asked(open_endpoint: Opener) -> None:
    before = masks()
    plain = open_endpoint("127.0.0.1")
    assert plain.cpus == ()
    new = masks()
    for mask in before:
        new.remove(mask)
    assert set(new) <= set(before)
    asked = open_endpoint("127.0.0.2", cpus=[FIRST])
    assert asked.cpus == (FIRST,)
    assert masks().count(str(FIRST)) > before.count(str(FIRST))
    with pytest.raises(UsageError, match="0-3,8"):
        open_endpoint("127.0.0.3", cpus="everything")
    with pytest.raises(UsageError, match="nobody knows"):
        open_endpoint("127.0.0.3", numa="lo")


def test_a_thread_goes_back_where_it_might_be() -> None:
    before = os.sched_getaffinity(0)
    pinned = Pinned((FIRST,))
    assert os.sched_getaffinity(0) == {FIRST}
    pinned.release()
    pinned.release()
    assert os.sched_getaffinity(0) == before
    Pinned(()).release()
    assert os.sched_getaffinity(0) == before
