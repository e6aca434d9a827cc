"""Files of htsim: connection matrices and topologies, what they mean and which are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from softmrc.errors import UsageError
from softmrc.sim.config import Clos, Fault
from softmrc.sim.htsim import parse_matrix, permutation_matrix, permutation_name, read_matrix
from softmrc.sim.htsim_topo import parse_topology, read_topology
from softmrc.sim.htsim_workload import matrix_faults, matrix_workload
from softmrc.sim.matrix_run import MatrixRun
from softmrc.sim.transports import Mrc
from softmrc.sim.workload import GREEDY, TaskKind, Workload

CHAIN = """\
# three flows, one after another
Nodes 8
Connections 3
Triggers 2
0->1 id 1 start 1500000 size 4000 send_done_trigger 1

0->2 id 2 trigger 1 size 3000000000 send_done_trigger 2 prio 7
0->3 id 3 trigger 2 size 0
trigger id 1 oneshot
trigger id 2 oneshot
"""


def test_a_byte_order_mark_is_no_word(tmp_path: Path) -> None:
    (tmp_path / "a.cm").write_bytes(b"\xef\xbb\xbfNodes 2\r\nConnections 1\r\n0->1 start 0 size 9\r\n")
    assert read_matrix(tmp_path / "a.cm").nodes == 2


def tasks(text: str) -> Workload:
    return matrix_workload(parse_matrix(text, "a.cm"))


def waits(work: Workload) -> dict[int, list[int]]:
    return {i: work.dependencies(i).tolist() for i in range(work.n) if len(work.dependencies(i))}


def matrix(*lines: str, nodes: int = 8) -> str:
    flows = sum("->" in line for line in lines)
    triggers = sum(line.startswith("trigger") for line in lines)
    failures = sum(line.startswith("failure") for line in lines)
    header = [f"Nodes {nodes}", f"Connections {flows}", f"Triggers {triggers}", f"Failures {failures}"]
    return "\n".join([*header, *lines])


def test_a_chain_of_flows(tmp_path: Path) -> None:
    path = tmp_path / "chain.cm"
    path.write_text(CHAIN)
    read = read_matrix(path)
    assert (read.nodes, len(read.connections), sorted(read.triggers)) == (8, 3, [1, 2])
    assert [f.line for f in read.connections] == [5, 7, 8]
    work = matrix_workload(read)
    assert work.size.tolist() == [4000, 3_000_000_000, GREEDY]
    assert work.start.tolist() == [1500, 0, 0]
    assert waits(work) == {1: [0], 2: [1]}
    assert work.groups == ["flows"]
    assert work.notes == ["'prio' was read but has no effect: all flows share one data class"]


def test_moments_are_those_of_the_right_end() -> None:
    """A task waits for a send directly only where that means what the trigger means."""
    trigger = "trigger id 1 oneshot"
    at_receiver = tasks(
        matrix("0->1 start 0 size 9 recv_done_trigger 1", "1->2 id 2 trigger 1 size 9", trigger)
    )
    assert waits(at_receiver) == {1: [0]}
    # The sender's acknowledgement starts a flow of the receiver: it has to come from the sender.
    back = tasks(matrix("0->1 start 0 size 9 send_done_trigger 1", "1->2 id 2 trigger 1 size 9", trigger))
    assert waits(back) == {1: [2], 2: [0]}
    assert (back.kind[2], back.node[2], back.delay[2]) == (TaskKind.COMPUTE, 0, 0)
    # The last byte at host 1 starts flows of the sender and of a third host: it is known at host 1.
    far = tasks(
        matrix(
            "0->1 start 0 size 9 recv_done_trigger 1",
            "0->2 id 2 trigger 1 size 9",
            "4->2 id 3 trigger 1 size 9",
            trigger,
        )
    )
    assert waits(far) == {1: [3], 2: [3], 3: [0]}
    assert far.node[3] == 1
    assert far.groups == ["flows", "triggers"]


def test_a_barrier_waits_for_all() -> None:
    work = tasks(
        matrix(
            "0->1 start 0 size 9 send_done_trigger 5",
            "2->3 start 0 size 9 send_done_trigger 5",
            "0->3 id 8 trigger 5 size 9",
            "4->3 id 9 trigger 5 size 9",
            "trigger id 5 barrier count 2",
        )
    )
    assert waits(work) == {2: [0, 1], 3: [0, 1]}
    assert work.notes == []


def test_both_moments_of_one_flow_count_twice() -> None:
    work = tasks(
        matrix(
            "0->1 start 0 size 9 send_done_trigger 5 recv_done_trigger 5",
            "0->3 id 8 trigger 5 size 9",
            "trigger id 5 barrier count 2",
        )
    )
    assert waits(work) == {1: [0, 2], 2: [0]}


def test_a_multishot_trigger_starts_one_flow_at_a_time() -> None:
    lines = ["0->1 start 0 size 9 send_done_trigger 1"]
    lines += [f"0->{i} id {i} trigger 1 size 9 send_done_trigger 1" for i in (2, 3, 4)]
    work = tasks(matrix(*lines, "trigger id 1 multishot"))
    assert waits(work) == {1: [0], 2: [1], 3: [2]}
    assert work.notes == []
    lanes = tasks(matrix("0->7 start 0 size 9 send_done_trigger 1", *lines, "trigger id 1 multishot"))
    assert waits(lanes) == {2: [0], 3: [1], 4: [2]}
    assert "in the order of the file" in lanes.notes[0]


def test_pairs_with_several_connections_are_noted() -> None:
    work = tasks(matrix("0->1 start 0 size 9", "0->1 start 0 size 9"))
    assert "1 pairs of nodes have several connections" in work.notes[0]


def test_a_huge_barrier_goes_through_one_task() -> None:
    n = 1100
    lines = [f"0->{i} start 0 size 9 send_done_trigger 1" for i in range(1, n)]
    lines += [f"0->{i} id {i} trigger 1 size 9" for i in range(1, n)]
    work = tasks(matrix(*lines, f"trigger id 1 barrier count {n - 1}", nodes=n))
    assert len(work.dep_idx) < 10 * n
    assert all(work.kind[d] == TaskKind.COMPUTE for d in waits(work)[n - 1])


def test_failures_become_faults() -> None:
    three = Clos(
        hosts=16, planes=1, hosts_per_t0=2, t1_per_plane=8, tiers=3, pods=4, t1_per_pod=2, t2_per_plane=4
    )
    read = parse_matrix(
        matrix(
            "0->1 start 0 size 9",
            "failure switch_type AGG switch_id 3 link_id 1",
            "failure switch_type TOR switch_id 5 link_id 0",
        )
    )
    assert matrix_faults(read, three) == (
        Fault(0, "link_down", "p1.t1-3.t2-3"),
        Fault(0, "link_down", "p1.t0-5.t1-4"),
    )
    two = Clos(hosts=16, planes=1, hosts_per_t0=4, t1_per_plane=2)
    with pytest.raises(UsageError, match="matrix:6: no AGG 3 with uplink 1"):
        matrix_faults(read, two)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0->1 start 0 size 5", "a.cm:1: the header has no line 'Nodes N'"),
        ("Nodes 0\n", "a.cm:1: Nodes 0 is outside 1"),
        ("Nodes 4 5\n", "a.cm:1: expected 'Nodes N'"),
        ("Nodes 4\nNodes 4\n", "a.cm:2: Nodes is given twice"),
        ("Nodes 4\nConnections 0\n", "a.cm:1: no connection"),
        ("", "the header has no line 'Nodes N'"),
        (
            matrix("0->1 start 0 size 5") + "\n1->2 start 0 size 5\n",
            "a.cm:2: the header promises Connections 1",
        ),
        (matrix("0->1 start 0 size 5") + "\nNodes 9\n", "a.cm:6: Nodes belongs above"),
        (matrix("3->3 start 0 size 5"), "a.cm:5: node 3 sends to itself"),
        (matrix("0->8 start 0 size 5"), r"a.cm:5: destination 8 is outside 0\.\.7"),
        (matrix("-1->2 start 0 size 5"), "source is a whole number, not '-1'"),
        (matrix("0->1 start 0 size"), "a.cm:5: 'size' needs a value"),
        (matrix("0->1 start 0"), "the flow has no size"),
        (matrix("0->1 size 4"), "by exactly one of them"),
        (matrix("0->1 id 1 start 0 trigger 1 size 4", "trigger id 1 oneshot"), "by exactly one of them"),
        (matrix("0->1 trigger 1 size 4", "trigger id 1 oneshot"), "needs an id"),
        (matrix("0->1 start -3 size 4"), "start -3 ps is outside"),
        (matrix("0->1 start nan size 4"), "start nan ps is outside"),
        (matrix("0->1 start x size 4"), "start is a time in picoseconds"),
        (matrix("0->1 start 0 size 4.5"), "size is a whole number"),
        (matrix("0->1 start 0 size 99999999999999999"), "size 99999999999999999 is outside"),
        (matrix("0->1 start 0 size 4 size 4"), "'size' is given twice"),
        (matrix("0->1 start 0 size 4 weight 4"), "a.cm:5: unknown word 'weight'; known here: id, start"),
        (matrix("0->1 start 0 size 4 addon"), "'addon'.*is not supported"),
        (matrix("0->1 id 0 start 0 size 4"), "flow id 0 is outside"),
        (
            matrix("0->1 id 3 start 0 size 4", "1->2 id 3 start 0 size 4"),
            "a.cm:6: flow id 3 is taken by line 5",
        ),
        (matrix("0->1 start 0 size 4 send_done_trigger 9"), "a.cm:5: send_done_trigger 9 is defined nowhere"),
        (matrix("0->1 start 0 size 0 send_done_trigger 1", "trigger id 1 oneshot"), "never done"),
        (matrix("0->1 start 0 size 4", "trigger id 1"), "a.cm:6: a trigger has an id and is one of"),
        (matrix("0->1 start 0 size 4", "trigger id 1 oneshot barrier"), "is one of"),
        (matrix("0->1 start 0 size 4", "trigger id 1 barrier"), "has a count"),
        (matrix("0->1 start 0 size 4", "trigger id 1 oneshot count 3"), "has a count"),
        (matrix("0->1 start 0 size 4", "trigger id 1 barrier count 0"), "count 0 is outside"),
        (matrix("0->1 start 0 size 4", "trigger id 1 oneshot", "trigger id 1 oneshot"), "in line 6 already"),
        (matrix("0->1 start 0 size 4", "failure switch_type AGG switch_id 1"), "a failure has"),
        (matrix("0->1 start 0 size 4", "failure switch_type LEAF switch_id 1 link_id 1"), "not 'LEAF'"),
        (matrix("0->1 start 0 size 4", "failure switch_type CORE switch_id 1 link_id 1"), "no uplinks"),
        (matrix("0->1 start 0 size 4", "hello"), "a.cm:6: 'hello' begins no line"),
    ],
)
def test_bad_matrices_are_refused(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_matrix(text, "a.cm")


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["0->1 id 1 trigger 1 size 4", "trigger id 1 oneshot"], "a.cm:5: oneshot trigger 1 is told 0 times"),
        (
            [
                *["0->1 start 0 size 4 send_done_trigger 1"] * 2,
                "0->2 id 2 trigger 1 size 4",
                "trigger id 1 oneshot",
            ],
            "a.cm:8: oneshot trigger 1 is told 2 times; it takes 1",
        ),
        (
            [
                "0->1 start 0 size 4 send_done_trigger 1",
                "0->2 id 2 trigger 1 size 4",
                "trigger id 1 barrier count 2",
            ],
            "a.cm:6: barrier trigger 1 is told 1 times and waits for 2",
        ),
        (
            [
                "0->1 start 0 size 4 send_done_trigger 1",
                "0->2 id 2 trigger 1 size 4",
                "0->3 id 3 trigger 1 size 4",
                "trigger id 1 multishot",
            ],
            "a.cm:7: multishot trigger 1 is told 1 times before",
        ),
        (
            [
                "0->1 id 1 trigger 2 size 4 send_done_trigger 1",
                "0->2 id 2 trigger 1 size 4 send_done_trigger 2",
                "trigger id 1 oneshot",
                "trigger id 2 oneshot",
            ],
            "a.cm: 2 tasks wait for one another",
        ),
    ],
)
def test_flows_that_would_never_start_are_refused(lines: list[str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        tasks(matrix(*lines))


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read the connection matrix"):
        read_matrix(tmp_path / "none.cm")
    with pytest.raises(UsageError, match="cannot read the topology"):
        read_topology(tmp_path / "none.topo")
    (tmp_path / "binary.cm").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="cannot read the connection matrix"):
        read_matrix(tmp_path / "binary.cm")


def test_a_written_permutation_reads_back() -> None:
    work = tasks(permutation_matrix(64, 2_000_000, seed=7, start_us=3))
    assert sorted(work.node.tolist()) == sorted(work.peer.tolist()) == list(range(64))
    assert set(work.size.tolist()) == {2_000_000}
    assert set(work.start.tolist()) == {3000}
    assert tasks(permutation_matrix(64, 2_000_000, connections=5)).n == 5
    assert permutation_name(1024, 2_000_000) == "perm_1024n_1024c_0u_2000000b.cm"
    with pytest.raises(UsageError, match="9 connections among 8 nodes"):
        permutation_matrix(8, 1, connections=9)


LEAF_SPINE = """\
# a comment
Nodes 32
Tiers 2
Podsize 32
Tier 0
Downlink_speed_Gbps 200
Radix_Down 8
Radix_Up 4
Queue_Up 100000
Queue_Down 100000
Downlink_Latency_ns 700
Switch_Latency_ns 250
Oversubscribed 4
Tier 1
Downlink_speed_Gbps 100
Radix_Down 4
Queue_Down 100000
Downlink_Latency_ns 1000
Switch_Latency_ns 250
"""
FAT_TREE = """\
Nodes 128
Tiers 3
Podsize 16
Tier 0
downlink_speed_gbps 100
radix_down 4
radix_up 4
downlink_latency_ns 1000
Tier 1
downlink_speed_gbps 100
radix_down 4
radix_up 4
downlink_latency_ns 1000
bundle 1
Tier 2
downlink_speed_gbps 100
radix_down 8
downlink_latency_ns 2000
"""


def test_a_leaf_spine_file() -> None:
    read = parse_topology(LEAF_SPINE)
    assert read.queue_bytes == 100_000
    fabric = read.fabric
    assert (fabric.hosts, fabric.planes, fabric.hosts_per_t0, fabric.t0, fabric.t1) == (32, 1, 8, 4, 4)
    assert (fabric.host_gbps, fabric.t0_t1_gbps) == (200, 100)
    assert (fabric.host_link_ns, fabric.t0_t1_ns, fabric.switch_ns) == (700, 1000, 250)


def test_a_three_tier_file() -> None:
    read = parse_topology(FAT_TREE, planes=2, link_gbps=400)
    fabric = read.fabric
    assert read.queue_bytes is None
    assert (fabric.tiers, fabric.pods, fabric.planes, fabric.t0, fabric.t1, fabric.t2) == (
        3,
        8,
        2,
        32,
        32,
        16,
    )
    assert (fabric.host_gbps, fabric.t0_t1_gbps, fabric.t1_t2_gbps) == (400, 400, 400)
    assert (fabric.t1_t2_ns, fabric.switch_ns) == (2000, 0)


def without(text: str, line: str) -> str:
    assert line in text
    return text.replace(line + "\n", "", 1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (without(LEAF_SPINE, "Nodes 32"), "the header has no Nodes"),
        (without(LEAF_SPINE, "Tiers 2"), "the header has no Tiers"),
        (without(LEAF_SPINE, "Radix_Up 4"), "tier 0 has no Radix_Up"),
        (without(LEAF_SPINE, "Radix_Down 8"), "tier 0 has no Radix_Down"),
        (without(LEAF_SPINE, "Downlink_Latency_ns 700"), "tier 0 has no Downlink_Latency_ns"),
        (LEAF_SPINE.replace("Tiers 2", "Tiers 4"), "t.topo:3: 4 tiers"),
        (LEAF_SPINE.replace("Tiers 2", "Tiers 3"), r"tiers \[0, 1\] are described"),
        (LEAF_SPINE.replace("Tier 1", "Tier 0"), "t.topo:14: tier 0 is described twice"),
        (LEAF_SPINE.replace("Tier 1", "Tier 7"), "t.topo:14: tier 7 is none of"),
        (LEAF_SPINE + "Radix_Up 3\n", "t.topo:20: Radix_Up: the top tier"),
        (LEAF_SPINE + "Colour 3\n", "t.topo:20: unknown keyword 'Colour'"),
        (LEAF_SPINE + "Radix_Down four\n", "t.topo:20: expected a keyword and a whole number"),
        (LEAF_SPINE + "Radix_Down 4\n", "t.topo:20: Radix_Down is given twice"),
        (LEAF_SPINE + "Bundle 2\n", "t.topo:20: parallel links"),
        (
            LEAF_SPINE.replace("Oversubscribed 4", "Oversubscribed 2"),
            "t.topo:13: Oversubscribed 2, but 1600 Gb/s",
        ),
        (LEAF_SPINE.replace("Radix_Down 4", "Radix_Down 3"), "t.topo:16: Radix_Down 3 of tier 1"),
        (LEAF_SPINE.replace("Podsize 32", "Podsize 16"), "t.topo:4: two tiers are one pod"),
        (LEAF_SPINE.replace("Nodes 32", "Nodes 33"), "t.topo:4: 33 nodes, pods of 32"),
        (LEAF_SPINE.replace("Radix_Up 4", "Radix_Up 0"), "Radix_Up 0 makes no network"),
        (LEAF_SPINE.replace("Queue_Up 100000", "Queue_Up 5"), "t.topo:9: Queue_Down differs between tiers"),
        (
            LEAF_SPINE.replace("Switch_Latency_ns 250\nO", "Switch_Latency_ns 9\nO"),
            "Switch_Latency_ns differs",
        ),
        (FAT_TREE.replace("radix_down 8", "radix_down 4"), "t.topo:17: Radix_Down 4 of tier 2"),
    ],
)
def test_bad_topologies_are_refused(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_topology(text, "t.topo")


def test_switches_hash_when_they_are_told_to(tmp_path: Path) -> None:
    matrix = tmp_path / "perm.cm"
    matrix.write_text(permutation_matrix(8, 10_000, seed=1))
    plain = MatrixRun(matrix=str(matrix)).plan()
    hashed = MatrixRun(matrix=str(matrix), hashed=True, ecn_bytes=(25_000, 100_000)).plan()
    assert isinstance(plain.transport, Mrc)
    assert isinstance(hashed.transport, Mrc)
    assert (plain.transport.mode, hashed.transport.mode) == ("srv6", "ecmp")
    assert (plain.queues.ecn_min, hashed.queues.ecn_min, hashed.queues.ecn_max) == (None, 25_000, 100_000)
    assert "hashed" not in plain.settings
    assert hashed.settings["hashed"] is True
    with pytest.raises(UsageError, match="tcp: its packets are hashed anyway"):
        MatrixRun(matrix=str(matrix), transport="tcp", hashed=True).plan()
