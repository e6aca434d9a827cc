"""`lab compare`, `lab map` and flows over the user-space switch: the same code, without namespaces."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from typer.testing import CliRunner

from softmrc.cli.app import app
from softmrc.lab import Lab, faults
from softmrc.lab.compare import Cut, compare
from softmrc.lab.flows import Flow, Flows, LinkWatch
from softmrc.lab.look import look
from softmrc.lab.nursery import Nursery


@pytest.fixture(scope="module")
def small(make_lab: Callable[..., Lab]) -> Lab:
    return make_lab(switch="soft", planes=2, t0=2, t1=2, hosts=2, rate_bps=50_000_000)


def test_a_transfer_survives_its_plane_and_tcp_says_why_it_is_not_run(small: Lab) -> None:
    result = compare(small, kinds=("softmrc", "tcp"), cut=Cut(at=1.5, until=2.5), after=0.7)
    ours, tcp = result.runs
    assert tcp.course is None
    assert "needs namespaces" in tcp.why_not
    assert ours.course is not None
    (outage,) = ours.course.outages
    assert ours.course.during(outage) > 0
    assert ours.course.more["qp_errors"] == 0
    assert not faults.active(small)


def test_flows_are_watched_link_by_link(small: Lab) -> None:
    ups = [(link, "a") for link in small.links if link.kind == "fabric" and link.a_node.endswith("t0-0")]
    with Nursery() as nursery, Flows(small, [Flow(source="h0", sink="h1")], 1.0, nursery) as running:
        with LinkWatch(small, ups) as watch:
            (result,) = running.results()
        sent = watch.sent(result.goodput.start + 0.1, result.goodput.end)
    assert len(sent) == 4
    assert min(sent) > 0.1 * max(sent), "every path of both planes carries its part"
    assert {p["path"] for p in result.row["per_ev"]} == {w.name for w in small.paths("h0", "h1")}


def test_the_map_has_the_load_and_the_faults(small: Lab) -> None:
    faults.fail(small, "p1.t1-0")
    try:
        loads = look(small).since(look(small))
        down = {load.link.name for load in loads if load.state == "down"}
    finally:
        faults.heal(small)
    assert down == {"p1.t0-0.t1-0", "p1.t0-1.t1-0"}
    done = CliRunner().invoke(app, ["lab", "map", "--name", small.name, "--interval", "0.1", "--json"])
    assert done.exit_code == 0
    assert len(json.loads(done.stdout)["links"]) == len(small.links)
