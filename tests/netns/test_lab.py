"""A lab in the kernel: every path, its switches, what is missing and put back, programs and addresses in it."""

from __future__ import annotations

import json
import os
import pty
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from softmrc.errors import MrcError, UsageError
from softmrc.lab import Lab
from softmrc.lab.plan import inner_address
from softmrc.lab.probe import Probed, probe
from softmrc.lab.snapshot import differences
from softmrc.netns.space import tell

CLI = (sys.executable, "-m", "softmrc.cli.app", "lab")


def ip(at: Lab, node: str, *words: str) -> str:
    return tell("ip", "-n", at.namespace(node), *words)


def why(found: Probed) -> list[str]:
    return [f.words for f in found.failures]


def test_every_path_works_and_passes_the_switches_it_names(lab: Lab) -> None:
    found = probe(lab)
    # 4 pairs in one rack, one path a plane; 8 across, one for each T1.
    assert (found.paths_total, found.paths_ok, why(found)) == (2 * (4 + 8 * 2), 40, [])


def test_a_packet_on_the_wrong_way_is_noticed_though_it_arrives(lab: Lab) -> None:
    # T1 1 does what T1 0 ought to do: same hops, same destination, other switch.
    sid = next(s for s in lab.plan.nodes["p1.t1-0"].sids if s.action == "End")
    ip(lab, "p1.t1-1", "-6", "route", "add", sid.dst, *sid.words.replace(" count", "").split())
    to_one = next(r for r in lab.plan.nodes["p1.t0-0"].routes if r.dst == "fc00:1:2001::/48").hops[0]
    ip(lab, "p1.t0-0", "-6", "route", "replace", sid.dst, "via", to_one.via, "dev", to_one.dev)
    try:
        found = probe(lab, wait_s=0.3)
    finally:
        ip(lab, "p1.t1-1", "-6", "route", "del", sid.dst)
        lab.maker.fill(lab.plan.nodes["p1.t0-0"])
    wrong = [
        f for f in found.failures if f.src in ("h0", "h1") and "t1-0" in f.path.switches and f.path.plane == 1
    ]
    assert len(wrong) == 4
    assert all(f.why == "did not pass p1.t1-0" for f in wrong), why(found)
    assert len(found.failures) == 4, why(found)
    assert probe(lab).failures == []


def test_a_hole_takes_the_paths_over_its_link_and_no_other(lab: Lab) -> None:
    lab.nft(
        "p2.t1-1",
        "table netdev n { chain i { type filter hook ingress device t0-0 priority 0; drop; }; }",
    )
    try:
        found = probe(lab, wait_s=0.1)
    finally:
        lab.nft("p2.t1-1", "delete table netdev n")
    assert {(f.path.plane, f.path.switches[:2], f.why) for f in found.failures} == {
        (2, ("t0-0", "t1-1"), "nothing arrives")
    }
    assert found.paths_ok == found.paths_total - 4


def test_what_is_missing_is_named_by_node_and_put_back_b41(lab: Lab) -> None:
    before = lab.snapshot()
    ip(lab, "p1.t0-0", "-6", "route", "del", "fc00:1:1000::/48")
    ip(lab, "p2.t1-1", "-6", "route", "del", "fc00:2:8003::/48")
    ip(lab, "h3", "-6", "neigh", "flush", "nud", "permanent", "dev", "p2")
    ip(lab, "h0", "-6", "addr", "del", "fc00:1:8000::/128", "dev", "p1")
    with_words = [m.words for m in lab.verify().missing]
    assert [w.partition(":")[0] for w in with_words] == ["h0", "h0", "h3", "p1.t0-0", "p2.t1-1"]
    assert "p1.t0-0: SID fc00:1:1000::/48 (End)" in with_words
    assert "p2.t1-1: route to fc00:2:8003::/48 over t0-1" in with_words
    assert "h0: address fc00:1:8000::/128 on p1" in with_words
    found, after = lab.repair()
    assert (len(found.missing), after.whole) == (5, True)
    assert differences(before, lab.snapshot()) == []


def test_links_flapped_in_turn_lose_nothing_that_repair_does_not_restore_b41_b46(
    lab_maker: Callable[..., Lab],
) -> None:
    with lab_maker(planes=1, t0=2, t1=2, hosts=2, ua=True, encap=True, anyip=True, plain="ecmp") as own:
        before = own.snapshot()
        sids = sum(len(p.sids) for p in own.plan.nodes.values())
        assert (sids, own.verify().whole) == (4 + 10 + 2 + 4, True)
        for link in own.links:
            for node, dev, _ in link.ends():
                ip(own, node, "link", "set", dev, "down")
                down = own.verify()
                assert {d.link for d in down.down} == {link.name}  # the far end notices up to a second later
                assert all(m.kind != "sid" or m.what.action == "encap" for m in down.missing)
                still = own.repair()[1]
                assert {d.link for d in still.down} == {link.name}
                ip(own, node, "link", "set", dev, "up")
                own.maker.settle()
                assert own.repair()[1].whole
        assert differences(before, own.snapshot()) == []
        assert probe(own).failures == []


def test_three_tiers(lab_maker: Callable[..., Lab]) -> None:
    with lab_maker(planes=1, t0=2, t1=4, t2=4, pods=2, hosts=2) as own:
        found = probe(own)
        assert (found.paths_total, found.paths_ok, why(found)) == (8, 8, [])
        assert {p.switches for p in own.paths("h0", "h1")} == {
            ("t0-0", f"t1-{j}", f"t2-{m}", f"t1-{j + 2}", "t0-1") for j, m in ((0, 0), (0, 1), (1, 2), (1, 3))
        }
        assert _tcp(own, "fc00:1:8001::", "h1") == "fc00:1:8000::"


def _tcp(at: Lab, address: str, host: str, wait: float = 5.0) -> str:
    """Connect from h0 and return the address the other end sees."""
    script = (
        "import socket; s = socket.create_server(('::', 5001), family=socket.AF_INET6); print('on', flush=True)\n"
        "c, a = s.accept(); c.recv(9); print(a[0], flush=True)"
    )
    server = at.popen(host, sys.executable, "-c", script, stdout=subprocess.PIPE)
    assert server.stdout is not None
    assert server.stdout.readline() == "on\n"
    client = f"import socket; socket.create_connection(('{address}', 5001), timeout={wait}).send(b'x')"
    at.run("h0", sys.executable, "-c", client, timeout=2 * wait)
    seen = str(server.communicate(timeout=wait)[0]).strip()
    return seen


def test_tcp_takes_one_path_the_same_always(lab: Lab) -> None:
    before = lab.counters()
    assert _tcp(lab, "fc00:1:8003::", "h3") == "fc00:1:8000::"
    # Bare addresses are routed, not source-routed: no uSID of a switch is used.
    assert lab.counters() == before
    ways = [r for r in lab.plan.nodes["p1.t0-0"].routes if r.dst == "fc00:1:8003::/48"]
    assert [[h.dev for h in r.hops] for r in ways] == [["t1-1"]]


def test_encapsulated_paths_end_at_the_host_and_pass_the_switches_of_their_list(
    lab_maker: Callable[..., Lab],
) -> None:
    with lab_maker(planes=2, t0=2, t1=2, hosts=2, encap=True, rate_bps=None) as own:
        for plane, number in ((1, 0), (2, 1)):
            before = own.counters()
            assert _tcp(own, inner_address(plane, number, 1), "h1") == inner_address(plane, number, 0)
            passed = {n for n, c in own.counters().items() if (c - before[n]).packets > 0}
            assert passed == {f"p{plane}.t0-0", f"p{plane}.t1-{number}", f"p{plane}.t0-1"}


def test_flow_labels_spread_over_the_t1s_with_ecmp(lab_maker: Callable[..., Lab]) -> None:
    with lab_maker(planes=1, t0=2, t1=2, hosts=2, plain="ecmp", rate_bps=None) as own:

        def received(switch: str) -> int:
            links = own.netlinks.ask(own.namespace(switch), "get_links")
            stats = {
                link.get_attr("IFLA_IFNAME"): link.get_attr("IFLA_STATS64")["rx_packets"] for link in links
            }
            return int(stats["t0-0"])

        def send(labels: range) -> list[int]:
            before = [received(f"p1.t1-{j}") for j in range(2)]
            with own.socket("h0", 1) as out:
                out.setsockopt(socket.IPPROTO_IPV6, 33, 1)  # IPV6_FLOWINFO_SEND
                for label in labels:
                    out.sendto(b"x", ("fc00:1:8001::", 9, label, 0))
            return [received(f"p1.t1-{j}") - before[j] for j in range(2)]

        same = [sum(x) for x in zip(*(send(range(77, 78)) for _ in range(20)), strict=True)]
        # A report of a multicast listener may come between.
        assert min(same) <= 2, same
        assert max(same) >= 20, same
        spread = send(range(1, 201))
        assert sum(spread) >= 200
        assert min(spread) > 50


def test_exec_hands_through_status_input_environment_and_signals(lab: Lab) -> None:
    def run(*words: str, text: str = "") -> subprocess.CompletedProcess[str]:
        command = [*CLI, "exec", "--name", lab.name, "h1", "--", *words]
        return subprocess.run(command, input=text, capture_output=True, text=True, timeout=20, check=False)

    done = run("sh", "-c", "cat; echo $SOFTMRC_PLANES; cat $SOFTMRC_FABRIC; exit 7", text="in\n")
    first, planes, *fabric = done.stdout.splitlines()
    assert (done.returncode, first, planes) == (7, "in", "fc00:1:8001::,fc00:2:8001::")
    assert json.loads("\n".join(fabric))["name"] == lab.name
    command = [
        *CLI,
        "exec",
        "--name",
        lab.name,
        "h1",
        "--",
        "sh",
        "-c",
        "trap 'exit 42' TERM; echo on; while :; do sleep .05; done",
    ]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "on\n"
    child.send_signal(signal.SIGTERM)
    assert child.wait(10) == 42
    child.stdout.close()
    missing = run("/does/not/exist")
    assert (missing.returncode, "softmrc lab exec: /does/not/exist: not found" in missing.stderr) == (
        127,
        True,
    )


def test_exec_keeps_the_terminal(lab: Lab) -> None:
    ours, theirs = pty.openpty()
    command = [
        *CLI,
        "exec",
        "--name",
        lab.name,
        "h1",
        "--",
        "sh",
        "-c",
        "test -t 0 && test -t 1 && stty size",
    ]
    try:
        subprocess.run(["stty", "rows", "41", "cols", "97"], stdin=theirs, check=True)
        done = subprocess.run(command, stdin=theirs, stdout=theirs, stderr=theirs, timeout=20, check=False)
        said = os.read(ours, 100)
    finally:
        os.close(ours)
        os.close(theirs)
    assert (done.returncode, said.split()) == (0, [b"41", b"97"])


def test_softmrc_sprays_over_flow_labels_where_the_lab_says_so(lab_maker: Callable[..., Lab]) -> None:
    with lab_maker(planes=1, t0=2, t1=2, hosts=2, plain="ecmp", paths="flow") as own:
        perf = (sys.executable, "-m", "softmrc.cli.app", "perf")
        server = own.popen("h1", *perf, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert server.stdout is not None
        assert "listening" in server.stdout.readline()
        before = own.counters()
        own.run("h0", *perf, own.addresses("h1")[0], "-s", "64k", "-n", "50", timeout=30)
        server.kill()
        server.communicate()
        assert own.counters() == before
        for name in ("p1.t1-0", "p1.t1-1"):
            links = own.netlinks.ask(own.namespace(name), "get_links")
            seen = {x.get_attr("IFLA_IFNAME"): x.get_attr("IFLA_STATS64")["rx_packets"] for x in links}
            assert seen["t0-0"] > 50, (name, seen)


def test_a_recorded_link_shows_what_passed_it(lab: Lab, tmp_path: Path) -> None:
    file = tmp_path / "link.pcap"
    pid = lab.record("p1.t0-0.t1-1", file)
    with lab.socket("h0", 1) as out:
        path = next(p for p in lab.paths("h0", "h3") if p.plane == 1 and "t1-1" in p.switches)
        out.sendto(b"seen", (path.address, 9))
    deadline = time.monotonic() + 10
    while b"seen" not in file.read_bytes() and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(pid, signal.SIGTERM)
    data = file.read_bytes()
    assert struct.unpack_from("<IHH", data) == (0xA1B23C4D, 2, 4)
    # The T0 has shifted its own uSID out.
    assert socket.inet_pton(socket.AF_INET6, "fc00:1:2001:1001:8003::") in data
    assert b"seen" in data


def test_names_that_are_not_there_are_refused(lab: Lab) -> None:
    for call in (
        lambda: lab.namespace("h9"), lambda: lab.run("x", "true"), lambda: lab.links_of("p3"),
        lambda: lab.paths("h0", "p1.t0-0"), lambda: lab.record("h0.p9", Path("x")), lambda: Lab.load("nosuch"),
    ):  # fmt: skip
        with pytest.raises(UsageError):
            call()
    with pytest.raises(MrcError, match="exit status 3"):
        lab.run("h0", "sh", "-c", "exit 3")


def test_targets(lab: Lab) -> None:
    def names(target: str) -> list[str]:
        return [link.name for link in lab.links_of(target)]

    assert names("h3.p2") == ["h3.p2"]
    assert names("h3") == names("h3.nic") == ["h3.p1", "h3.p2"]
    assert names("p1.t1-1") == ["p1.t0-0.t1-1", "p1.t0-1.t1-1"]
    assert names("p1.t0-1.hosts") == ["h2.p1", "h3.p1"]
    assert names("p1.t0-1.up") == ["p1.t0-1.t1-0", "p1.t0-1.t1-1"]
    assert len(names("p2")) == 4 + 4
