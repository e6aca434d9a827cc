"""A fabric whose uplinks are exactly full: what is left of the line when all queues are in use."""

from __future__ import annotations

from softmrc.sim.builder import Builder
from softmrc.sim.config import Clos, Mrc
from softmrc.sim.result.paths import named
from softmrc.sim.run import simulate
from softmrc.sim.workload import GREEDY


def test_answers_do_not_eat_the_line() -> None:
    """Hundreds of packets out of order, many marked: a NIC still sends one SACK a trigger, not one a window of 64."""
    hosts, racks = 32, 4
    builder = Builder()
    sources = list(range(hosts))
    builder.sends(sources, [(h + hosts // racks) % hosts for h in sources], [GREEDY] * hosts)
    fabric = Clos(hosts=hosts, planes=4, hosts_per_t0=hosts // racks, t1_per_plane=8)
    end_ns = 600_000
    seen = simulate(fabric, builder.build(), Mrc(evs=256), until_ns=end_ns, sample_ns=end_ns // 2, check=True)
    totals = seen.totals
    assert totals["violations"] == 0
    assert totals["ecn_marks"] > totals["data_packets"] / 10
    assert totals["sacks"] < totals["data_packets"]
    goodput = seen.series["group_bytes"][-1].sum() * 8 / (end_ns // 2) / hosts
    assert goodput > 0.88 * 400


def test_a_long_transfer_over_healthy_paths_blames_none_of_them() -> None:
    """A receiver asks for paths once a round trip, for longer than any stock of answers lasts: all are answered."""
    builder = Builder()
    builder.sends([0], [1], [GREEDY])
    fabric = Clos(hosts=2, planes=1, hosts_per_t0=1, t1_per_plane=4)
    seen = simulate(fabric, builder.build(), Mrc(evs=64), until_ns=40_000_000, sample_ns=40_000_000)
    assert seen.totals["data_packets"] > 50_000
    assert set(named(seen.ev_events)["state"]) <= {"GOOD", "SKIP"}
