"""Workloads on the simulator: what a task waits for, seen in the times it starts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softmrc.sim.builder import Builder
from softmrc.sim.config import Clos, Fault, Mrc, Transport
from softmrc.sim.htsim import parse_matrix
from softmrc.sim.htsim_workload import matrix_workload
from softmrc.sim.run import Outcome, simulate
from softmrc.sim.scenario import Scenario
from softmrc.sim.split import split_over_qps
from softmrc.sim.workload import GREEDY, Workload
from softmrc.sim.workloads import (
    all_to_all,
    broadcast,
    bus_bandwidth,
    hierarchical_all_reduce,
    ring_all_reduce,
    send_recv_ring,
    training_job,
    tree_all_reduce,
)

FABRIC = Clos(hosts=8, planes=2, hosts_per_t0=2, t1_per_plane=2)
LINK_NS = 800
"""Cable and forwarding: the longest that news need to reach other hosts."""


def run(work: Workload, transport: Transport | None = None, **options: Any) -> Outcome:
    outcome = simulate(FABRIC, work, transport, check=True, **options)
    assert outcome.totals.get("violations", 0) == 0
    return outcome


def finished(work: Workload, transport: Transport | None = None) -> Outcome:
    outcome = run(work, transport)
    assert outcome.stopped == "done"
    assert (outcome.tasks["status"] == 1).all()
    return outcome


def test_bytes_delivered_are_those_asked_for_whatever_was_sent_again() -> None:
    b = Builder()
    b.sends(range(4), range(4, 8), 2_000_000)
    lossy = [Fault(0, "link_loss", "p1", 0.05)]
    out = run(b.build(hosts=8), Mrc(fast_loss=False), faults=lossy)
    assert out.totals["spurious"] > 0  # copies did arrive
    assert out.flows["delivered_bytes"].tolist() == [2_000_000] * 4


def test_receiver_sender_and_others_hear_of_a_send() -> None:
    b = Builder()
    (first,) = b.sends(0, 4, 100_000)
    at_receiver, at_sender, elsewhere = b.sends([4, 0, 6], [1, 3, 2], 10, after=[[first]])
    times = finished(b.build(hosts=8)).tasks
    delivered, acked = int(times["delivered_ns"][first]), int(times["acked_ns"][first])
    assert delivered < acked
    assert times["ready_ns"][at_receiver] == delivered
    assert times["ready_ns"][at_sender] == acked
    assert acked <= times["ready_ns"][elsewhere] <= acked + LINK_NS


def test_delays_and_starts() -> None:
    b = Builder()
    (wait,) = b.computes(3, 1_000_000, start=5_000)
    (send,) = b.sends(3, 4, 10, after=[wait], delay=700)
    (late,) = b.sends(5, 4, 10, start=3_000_000_000)
    times = finished(b.build(hosts=8)).tasks
    assert times["delivered_ns"][wait] == 1_005_000
    assert 1_005_700 <= times["posted_ns"][send] <= 1_005_700 + 10
    assert times["posted_ns"][late] >= 3_000_000_000


def test_a_barrier_costs_at_most_two_links() -> None:
    b = Builder()
    parts = b.computes(np.arange(8), np.arange(8) * 1000)
    barrier = b.barrier(parts)
    then = b.computes(np.arange(8), 0, after=np.full(8, barrier))
    times = finished(b.build(hosts=8)).tasks
    assert 7000 <= times["delivered_ns"][barrier] <= 7000 + LINK_NS
    assert times["ready_ns"][then].max() <= 7000 + 2 * LINK_NS


@pytest.mark.parametrize(
    "add",
    [
        lambda b: ring_all_reduce(b, 8, 300_001, pieces=3),
        lambda b: ring_all_reduce(b, [5, 1, 2], 7),
        lambda b: tree_all_reduce(b, 8, 300_000, pieces=3),
        lambda b: tree_all_reduce(b, 7, 0, pieces=1),
        lambda b: broadcast(b, 8, 300_000, root=3),
        lambda b: all_to_all(b, 8, 100_000, window=2),
        lambda b: send_recv_ring(b, 8, 10_000, rounds=3),
        lambda b: hierarchical_all_reduce(b, 2, 4, 300_000),
        lambda b: training_job(
            b,
            8,
            lambda b, r: ring_all_reduce(b, 8, 10_000, after=r),
            steps=3,
            compute_ns=5_000,
            jitter=0.1,
            buckets=2,
        ),
    ],
)
def test_every_generator_runs_to_its_end(add: Callable[[Builder], Any]) -> None:
    b = Builder()
    add(b)
    work = b.build(hosts=8)
    outcome = finished(work)
    assert outcome.flows["delivered_bytes"].sum() == work.bytes


def test_a_long_ring_reaches_line_rate() -> None:
    b = Builder()
    ring_all_reduce(b, [0, 2, 4, 6, 1, 3, 5, 7], 40_000_000)
    outcome = finished(b.build(hosts=8))
    assert 170 < bus_bandwidth("all_reduce", 8, 40_000_000, outcome.sim_ns) < 200


def test_the_slowest_rank_sets_the_pace() -> None:
    b = Builder()
    training_job(
        b,
        8,
        lambda b, r: ring_all_reduce(b, 8, 8000, after=r),
        steps=4,
        compute_ns=200_000,
        jitter=0.1,
        seed=3,
    )
    work = b.build(hosts=8)
    times = finished(work).tasks
    ends = [0, *(int(times["delivered_ns"][ids].max()) for _, ids in work.steps)]
    slowest = work.delay[work.group == work.groups.index("compute")].reshape(4, 8).max(axis=1)
    for step in range(4):
        assert slowest[step] < ends[step + 1] - ends[step] < slowest[step] + 150_000


def test_messages_split_over_qps_arrive_whole() -> None:
    b = Builder()
    ring_all_reduce(b, 8, 300_000)
    work = split_over_qps(b.build(hosts=8), 4)
    outcome = finished(work, Mrc(qps=4))
    assert outcome.flows["delivered_bytes"].sum() == work.bytes == 2 * 7 * 300_000


def test_a_matrix_of_htsim_runs_in_its_order() -> None:
    text = """\
Nodes 8
Connections 5
Triggers 2
0->4 id 1 start 2000000 size 100000 recv_done_trigger 1
1->4 id 2 trigger 1 size 50000 send_done_trigger 2
4->5 id 3 trigger 1 size 50000 send_done_trigger 2
6->7 id 4 trigger 2 size 1000
3->2 id 5 start 0 size 0
trigger id 1 oneshot
trigger id 2 barrier count 2
"""
    work = matrix_workload(parse_matrix(text))
    assert work.size[4] == GREEDY
    outcome = run(work, until_ns=200_000)
    times = outcome.tasks
    first = int(times["delivered_ns"][0])
    assert times["posted_ns"][0] >= 2000
    assert times["ready_ns"][2] == first
    assert first <= times["ready_ns"][1] <= first + LINK_NS
    last = int(times["acked_ns"][[1, 2]].max())
    assert last <= times["ready_ns"][3] <= last + LINK_NS
    assert times["status"].tolist()[:5] == [1, 1, 1, 1, 0]
    assert outcome.flows["delivered_bytes"][4] > 2_000_000


@pytest.mark.parametrize("transport", ["mrc", "rocev2", "tcp"])
def test_a_built_in_scenario_on_every_transport(transport: str) -> None:
    s = Scenario.load("two-hosts", quick=True, overrides={"transport.name": transport})
    work = s.workload()
    outcome = simulate(s.topology, work, s.transport, queues=s.queues, seed=s.seed, check=True)
    assert outcome.stopped == "done"
    assert outcome.flows["delivered_bytes"].tolist() == [1_000_000, 1_000_000]


def test_a_hand_made_fabric_is_as_slow_as_its_slowest_link(tmp_path: Path) -> None:
    (tmp_path / "net.toml").write_text(
        'hosts = 2\n[[switch]]\ntier = 0\n[[link]]\nlow = "h0"\nhigh = "p1.t0-0"\ngbps = 100\n'
        '[[link]]\nlow = "h1"\nhigh = "p1.t0-0"\ngbps = 100\ngbps_down = 10\ndelay_ns = "100 us"\n'
    )
    flow = [{"source": 0, "destination": 1, "size": "1 MB"}]
    data = {"fabric": {"file": "net.toml"}, "workload": {"kind": "flows", "flow": flow}}
    s = Scenario.from_tables(data, folder=tmp_path)
    outcome = simulate(s.topology, s.workload(), s.transport, check=True)
    assert outcome.stopped == "done"
    # 1 MB at 10 Gb/s is 800 us; headers and the way add to it.
    assert 900_000 < outcome.tasks["delivered_ns"][0] < 1_400_000
