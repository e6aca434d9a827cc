"""Probes over real sockets: who answers, what counts as dead."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

from softmrc.cli.app import app
from softmrc.endpoint import Endpoint
from softmrc.errors import UsageError
from softmrc.ping import Pinger, Target
from softmrc.verbs import Context

HOSTS = ("127.0.0.1", "127.0.0.2")
PEERS = ("127.0.0.3", "127.0.0.4")


@pytest.fixture
def pair():
    """Two connected endpoints of two planes and the targets of the first."""
    with (
        Endpoint(*HOSTS, evs_per_plane=4) as a,
        Endpoint(*PEERS, evs_per_plane=4) as b,
        b.listen() as listener,
    ):
        conn = a.connect_sync(PEERS[0], listener.port)
        other = listener.accept(timeout=10.0)
        yield a, b, [Target(r.plane, r.address, r.udp_port) for r in conn.routes]
        conn.abort()
        other.abort()


def rounds_until(pinger, answers):
    """Rounds until one has that many answers, or five: a busy machine is late for one, a dead path for all."""
    for _ in range(5):
        found = pinger.round()
        if found >= answers:
            break
    return found


def test_every_path_answers(pair):
    a, _, targets = pair
    with Pinger(a.ctx, targets) as pinger:
        assert rounds_until(pinger, 8) == 8
        assert {(p.plane, p.ev) for p in pinger.paths} == {(p.number, ev) for p in a.planes for ev in p.evs}
        assert all(p.answered >= 1 and p.best_ns > 0 for p in pinger.paths)


def test_a_dead_path_and_a_dead_plane_are_found(pair):
    a, b, targets = pair
    victim = a.planes[0].evs[2]
    with Pinger(a.ctx, targets, timeout=0.2) as pinger:
        a.impair([{"plane": 1, "ev": victim, "direction": "tx", "down": True}])
        assert rounds_until(pinger, 7) == 7
        assert [(p.plane, p.ev) for p in pinger.paths if p.dead] == [(1, victim)]
        b.impair([{"plane": 2, "down": True}])
        with Pinger(a.ctx, targets, timeout=0.2) as second:
            assert rounds_until(second, 3) == 3
            assert second.summary(2).dead == 4
            assert second.summary(2).loss == 1.0


def test_strangers_are_not_answered_unless_asked(pair):
    _, b, _ = pair
    with (
        Context(planes=["127.0.0.5"], evs_per_plane=2, udp_port=0, accept_only_known_peers=False) as stranger,
        Pinger(stranger, [Target(1, PEERS[0], b.planes[0].udp_port)], timeout=0.1) as pinger,
    ):
        assert pinger.round() == 0
    end = time.monotonic() + 20
    while b.stats().drops["bad_peer"] < 2:  # the other thread may not have looked yet
        assert time.monotonic() < end
        time.sleep(0.001)
    assert b.stats().drops["bad_peer"] == 2


@pytest.mark.parametrize(
    ("targets", "options"),
    [
        ([], {}),
        ([Target(3, PEERS[0], 4791)], {}),
        ([Target(1, PEERS[0], 1), Target(1, PEERS[1], 1)], {}),
        ([Target(1, PEERS[0], 4791)], {"timeout": 1.5}),
        ([Target(1, PEERS[0], 4791)], {"timeout": 0}),
        ([Target(1, PEERS[0], 4791)], {"dscp": 64}),
    ],
)
def test_wrong_use(pair, targets, options):
    with pytest.raises(UsageError):
        Pinger(pair[0].ctx, targets, **options)


def test_more_paths_than_a_batch():
    with (
        Endpoint("::1", evs_per_plane=50) as a,
        Endpoint("::1", evs_per_plane=1) as b,
        b.listen() as listener,
    ):
        conn = a.connect_sync("::1", listener.port)
        targets = [Target(r.plane, r.address, r.udp_port) for r in conn.routes]
        with Pinger(a.ctx, targets) as pinger:
            assert [rounds_until(pinger, 50) for _ in range(2)] == [50, 50]
            assert pinger.refused == 0
        conn.abort()


# --- the command --------------------------------------------------------------------------------------------


@pytest.fixture
def run():
    return lambda *args: CliRunner().invoke(app, ["ping", *map(str, args)])


def test_command_learns_all_planes_from_a_listener(run):
    with Endpoint(*PEERS) as peer, peer.listen(token="secret") as listener:
        result = run(
            f"{PEERS[0]}:{listener.port}", "--token", "secret", "-c", 2, "-i", 0.05, "--evs", 3, "--json"
        )
        assert result.exit_code == 0, result.output
        found = json.loads(result.stdout)
        assert (found["ok"], found["rounds"], found["dead"], found["sent"]) == (True, 2, 0, 12)
        assert [p["peer"] for p in found["planes"]] == list(PEERS)
        assert len(found["paths"]) == 6
        peer.impair([{"plane": 2, "down": True}])
        result = run(f"{PEERS[0]}:{listener.port}", "--token", "secret", "-c", 1, "-W", 0.2, "--evs", 2)
        assert result.exit_code == 1
        assert run(f"{PEERS[0]}:{listener.port}", "--token", "wrong").exit_code == 3


def test_command_between_two_that_are_not_connected(run):
    args = [
        sys.executable,
        "-m",
        "softmrc.cli.app",
        "ping",
        "--answer",
        "--planes",
        ",".join(PEERS),
        "--json",
    ]
    with subprocess.Popen([*args, "--udp-port", "4799"], stdout=subprocess.PIPE, text=True) as other:
        try:
            assert json.loads(other.stdout.readline())["event"] == "answering"
            # Dead is what has never answered; in one round of several a busy machine is in time.
            options = ("--planes", ",".join(HOSTS), "--udp-port", 4799, "-c", 4, "-i", 0.01, "--evs", 2)
            result = run("--peer-planes", ",".join(PEERS), *options, "--paths")
            assert result.exit_code == 0, result.output
            result = run("--peer-planes", f"{PEERS[0]},127.0.0.9", *options, "-W", 0.2, "--json")
            assert result.exit_code == 1
            assert [p["dead"] for p in json.loads(result.stdout)["planes"]] == [0, 2]
        finally:
            other.kill()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((), "give DEST"),
        (("10.0.0.1", "--answer"), "give DEST"),
        (("--answer",), "--planes"),
        (("--peer-planes", "127.0.0.2", "--planes", "127.0.0.1,127.0.0.3"), "has 2 addresses"),
        (("10.0.0.1", "-i", "nan"), "--interval"),
        (("10.0.0.1", "-i", "0"), "--interval"),
        (("--peer-planes", "127.0.0.2", "--planes", "127.0.0.1", "-W", "2"), "at most 1"),
        (("--peer-planes", "192.0.2.2", "--planes", "192.0.2.1"), "192.0.2.1"),
        (("--answer", "--planes", "192.0.2.1"), "192.0.2.1"),
    ],
)
def test_wrong_options_are_named(run, args, words):
    result = run(*args)
    assert result.exit_code == 2
    assert words in result.output
