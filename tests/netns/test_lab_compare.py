"""`lab compare` and `lab paper` on small labs: what is reported, and that it is what happened."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from softmrc.bench.tcp import missing_iperf3, missing_mptcp
from softmrc.cli.app import app
from softmrc.errors import UsageError
from softmrc.lab import Lab, faults
from softmrc.lab.compare import Cut, compare
from softmrc.lab.paper import STUDIES, bed_targets, run_bed
from softmrc.lab.transfers import Transfer, run_transfer


@pytest.fixture(scope="module")
def small(lab_maker: Callable[..., Lab]) -> Lab:
    return lab_maker(switch="kernel", planes=2, t0=2, t1=2, hosts=2, rate_bps=50_000_000)


def test_softmrc_goes_on_where_tcp_stalls(small: Lab) -> None:
    if why := missing_iperf3():
        pytest.skip(why)
    result = compare(small, kinds=("softmrc", "tcp"), cut=Cut(at=1.5, until=3.0), after=1.0)
    ours, tcp = (run.course for run in result.runs)
    assert ours is not None
    assert tcp is not None
    assert tcp.stall() > 1.0
    assert ours.stall() < 0.5
    (outage,) = ours.outages
    assert outage.left == 0.5
    assert outage.end - outage.begin == pytest.approx(1.5, abs=0.3)
    assert ours.during(outage) < 0.7 * ours.before()
    assert ours.more["qp_errors"] == 0
    found = result.to_json()
    assert {run["kind"] for run in found["runs"]} == {"softmrc", "tcp"}
    assert all(check["met"] in (True, False) for check in found["checks"])
    assert not faults.active(small)


def test_mptcp_leaves_a_host_as_it_was(small: Lab) -> None:
    if why := missing_mptcp():
        pytest.skip(why)
    before = [
        small.run(h, "ip", "mptcp", what, "show") for h in ("h0", "h1") for what in ("limits", "endpoint")
    ]
    course = run_transfer(small, "mptcp", Transfer("h0", "h1", 2.0))
    assert course.goodput.rate(course.begin, course.end) > 60e6, "one subflow alone carries 50 Mbit/s"
    after = [
        small.run(h, "ip", "mptcp", what, "show") for h in ("h0", "h1") for what in ("limits", "endpoint")
    ]
    assert after == before


def test_without_trimming_packets_are_of_the_other_class(small: Lab) -> None:
    course = run_transfer(small, "softmrc-notrim", Transfer("h0", "h1", 1.0))
    assert course.more["trimmed"] == 0
    assert course.goodput.rate(course.begin, course.end) > 30e6


@pytest.mark.parametrize(
    ("kinds", "sink", "target", "words"),
    [
        (("quic",), None, "p1", "no kind"),
        (("softmrc",), "h9", "p1", "no host h9"),
        (("softmrc",), None, "p9", "nothing is called p9"),
    ],
)
def test_what_is_not_there_is_refused_before_anything_runs(
    small: Lab, kinds: tuple[str, ...], sink: str | None, target: str, words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        compare(small, kinds=kinds, sink=sink, cut=Cut(target=target))


def test_the_command_compares_in_a_lab_that_is_up_and_draws(small: Lab, tmp_path: Path) -> None:
    figure = tmp_path / "compare.svg"
    words = ["lab", "compare", "--name", small.name, "--only", "softmrc", "--before", "1.5", "--broken", "0.5",
             "--after", "0.5", "--figure", str(figure), "--json"]  # fmt: skip
    done = CliRunner().invoke(app, words)
    found = json.loads(done.stdout)
    assert done.exit_code == (0 if found["ok"] else 1)
    assert found["runs"][0]["goodput_mbps"] > 0
    assert "<svg" in figure.read_text()
    assert small.run("h0", "true") == "", "the lab is still up"


def test_a_target_of_the_paper_on_a_lab() -> None:
    """R22 needs neither a quiet machine nor long runs."""
    (target,) = bed_targets("R22")
    report = run_bed([target], quick=True, name="tpaper")
    assert report.entries[0].met, report.entries[0].note
    assert report.as_dict()["results"][0]["id"] == "R22"


def test_every_study_is_of_a_target() -> None:
    assert [t.id for t in bed_targets("")] == list(STUDIES)
