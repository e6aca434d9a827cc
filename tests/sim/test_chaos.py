"""Chaos as people and CI run it: splitting, determinism, every impairment, and what a failure says."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest
from typer.testing import CliRunner

from softmrc.chaos import EPISODE_PACKETS, Episode, replay, run
from softmrc.cli.app import app
from softmrc.errors import UsageError


def chaos(*args: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["chaos", *args])
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture(scope="module")
def tenth() -> dict[str, Any]:
    """A tenth of the packets of a full run, in as many episodes."""
    return run(seed=3, packets=500_000, episode_packets=25_000).as_dict()


def test_packets_are_as_asked_and_nothing_is_wrong(tenth: dict[str, Any]) -> None:
    assert tenth["packets"] == 500_000
    assert tenth["episodes"] == 20
    assert tenth["violations"] == 0
    assert tenth["failures"] == []


@pytest.mark.parametrize(
    "kind",
    ["drops", "delayed", "reordered", "duplicated", "corrupted", "trimmed", "marked", "overflowed",
     "rules", "cuts", "flaps", "mpr_changes", "pressures", "restarts"],
)  # fmt: skip
def test_every_kind_of_harm_happens(tenth: dict[str, Any], kind: str) -> None:
    assert tenth[kind] > 0


def test_harm_is_felt_and_traffic_flows(tenth: dict[str, Any]) -> None:
    for count in ("writes", "immediates", "bytes", "rtx", "duplicates", "nacks", "ev_demotions"):
        assert tenth[count] > 100, count
    assert tenth["rejected"]["bad_icrc"] > 0
    assert tenth["rejected"]["bad_qpn"] > 0  # packets for a side that restarted


def test_memory_is_bounded(tenth: dict[str, Any]) -> None:
    assert 4096 < tenth["max_qp_bytes"] < 512 * 1024
    assert 0 < tenth["max_frames"] < 200_000


def test_same_seed_same_digest_for_any_number_of_threads() -> None:
    packets = EPISODE_PACKETS + 30_000
    one = run(seed=11, packets=packets, jobs=1)
    two = run(seed=11, packets=packets, jobs=2)
    assert one.episodes == 2
    assert one.as_dict() == two.as_dict()
    assert run(seed=12, packets=30_000).digest != run(seed=11, packets=30_000).digest


def test_progress_ends_at_the_whole() -> None:
    seen: list[tuple[int, int]] = []
    run(seed=1, packets=10_000, episode_packets=4_000, progress=lambda done, bad: seen.append((done, bad)))
    assert len(seen) == 3
    assert seen[-1] == (10_000, 0)


def test_json_of_the_command() -> None:
    code, out, _ = chaos("--seed", "5", "--packets", "20000", "--json")
    data = json.loads(out)
    assert code == 0
    assert (data["seed"], data["packets"], data["violations"]) == (5, 20_000, 0)
    assert data["digest"] == run(seed=5, packets=20_000).digest


def test_text_names_seed_packets_and_violations() -> None:
    code, out, _ = chaos("--seed", "5", "--packets", "20000")
    assert code == 0
    assert "seed 5: 20,000 packets in 1 episode(s)" in out
    assert "violations: 0" in out


# A bound that no QP can keep stands in for an engine that is wrong.
def test_a_violation_ends_with_its_cause_and_a_replay_that_fails_again() -> None:
    code, out, err = chaos("--seed", "6", "--packets", "30000", "--max-qp-bytes", "100", "--json")
    data = json.loads(out)
    assert code == 1
    assert data["violations"] >= 1
    (failure,) = data["failures"]
    assert "a QP holds" in failure["violations"][0]
    assert failure["actions"] == []  # shrunk: no action is needed for it
    assert f"replay: {failure['replay']}" in err
    words = shlex.split(failure["replay"])
    assert words[:2] == ["softmrc", "chaos"]
    again, text, said = chaos(*words[2:])
    assert again == 1
    assert "violations: 1" in text
    assert "seed 6, episode 0" in said


def test_the_first_failing_episode_is_named() -> None:
    biggest = [replay(Episode(9, n, 5_000)).counts["max_qp_bytes"] for n in range(4)]
    result = run(seed=9, packets=20_000, max_qp_bytes=max(biggest) - 1, episode_packets=5_000)
    assert [f.episode.number for f in result.failures] == [biggest.index(max(biggest))]


def test_an_action_left_out_leaves_the_rest_alone() -> None:
    whole = replay(Episode(4, 0, 20_000))
    less = replay(Episode(4, 0, 20_000, (0, 1)))
    assert whole.violations == less.violations == 0
    assert whole.digest != less.digest


@pytest.mark.parametrize(
    "args",
    [
        ("--seed", "-1"),
        ("--packets", "0"),
        ("--jobs", "0"),
        ("--without", "1"),
        ("--episode", "0", "--without", "x"),
    ],
)
def test_wrong_use_is_refused(args: tuple[str, ...]) -> None:
    code, _, err = chaos(*args)
    assert code == 2
    assert err


def test_arguments_out_of_range() -> None:
    with pytest.raises(UsageError):
        run(seed=1 << 64, packets=1)
    with pytest.raises(UsageError):
        Episode(1, -1, 1)
