"""Faults of the lab: each does what it says, acts at once, adds up with others, and leaves nothing when healed."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from softmrc.errors import UsageError
from softmrc.lab import Lab, ends, faults, keeper, tc
from softmrc.lab.condition import Harm
from softmrc.lab.ledger import ledger_file
from softmrc.lab.ports import find_program
from softmrc.lab.rtnl import Rtnl, devices
from softmrc.lab.script import Script
from softmrc.lab.snapshot import differences
from softmrc.lab.state import Process
from softmrc.netns.enter import entered

RCVBUFFORCE, TIMESTAMPNS = 33, 35
CLI = (sys.executable, "-m", "softmrc.cli.app", "lab")
KINDS: list[tuple[str, dict[str, Any]]] = [
    ("h0.p1", {}),
    ("h0.p1", {"end": "lower"}),
    ("p1.t0-0.t1-1", {}),
    ("p1.t0-0.t1-1", {"end": "lower"}),
    ("p1.t0-0", {}),
    ("p2.t1-1", {}),
    ("p2", {}),
    ("h3.nic", {}),
    ("h3.nic", {"end": "lower"}),
    ("h0.p2", {"silent": True}),
    ("p1.t1-0", {"silent": True, "direction": "up"}),
    ("p1", {"loss": 0.05}),
    ("p1.t0-1.t1-0", {"loss": 0.1, "corrupt": 0.01, "direction": "down"}),
    ("h1", {"rate": 0.1}),
    ("p2.t0-0", {"rate": 0.5, "loss": 0.01, "corrupt": 0.001}),
]


@pytest.fixture(scope="module")
def full(lab_maker: Callable[..., Lab]) -> Lab:
    """Every kind of route there is: uA, packed, multipath, prefixes of hosts."""
    return lab_maker(
        planes=2, t0=2, t1=2, hosts=4, ua=True, encap=True, anyip=True, plain="ecmp", switch="kernel"
    )


HEALTHY: dict[str, Any] = {}


@pytest.fixture(autouse=True, scope="module")
def _healthy(full: Lab) -> Iterator[None]:
    HEALTHY[full.name] = state(full)
    yield
    assert settled(full, HEALTHY[full.name]) == []


@pytest.fixture(autouse=True)
def _healed(full: Lab) -> Iterator[None]:
    yield
    faults.heal(full)


def state(lab: Lab) -> dict[str, dict[str, Any]]:
    """All that stands in the kernel, and the settings of the programs at the ports."""
    found = lab.snapshot()
    for link in lab.links:
        for node, dev, _ in link.ends():
            with contextlib.closing(Rtnl(lab.namespace(node))) as net:
                index = devices(net)[dev]
                for parent, name in ((tc.EGRESS, "queue"), (tc.INGRESS, "wire")):
                    maps = find_program(net, index, parent, name)
                    found[node][f"{dev} {name}"] = [maps[f"{name}_set"].read().hex()] if maps else []
                    for one in maps.values():
                        one.close()
    return found


def settled(lab: Lab, before: dict[str, dict[str, Any]]) -> list[str]:
    """The differences to a state, once links had time to come up."""
    deadline = time.monotonic() + 20
    while (found := differences(before, state(lab))) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


@pytest.mark.parametrize(("target", "what"), KINDS)
def test_healing_restores_exactly_what_was_there_b46(full: Lab, target: str, what: dict[str, Any]) -> None:
    faults.fail(full, target, **what)
    assert differences(HEALTHY[full.name], state(full)) != []
    assert [f.target for f in faults.heal(full, target)] == [target]
    assert settled(full, HEALTHY[full.name]) == []
    assert faults.heal(full, target) == []


def test_faults_add_up_and_heal_in_any_order_b46(full: Lab) -> None:
    rng = random.Random(5)
    for _ in range(3):
        chosen = [*rng.sample(KINDS, 6), ("p1.t0-0", {}), ("p1", {}), ("h0.p1", {"end": "lower"})]
        numbers = [faults.fail(full, target, **what).number for target, what in chosen]
        rng.shuffle(numbers)
        for number in numbers:
            assert len(faults.heal(full, number)) == 1
        assert settled(full, HEALTHY[full.name]) == []


def test_what_is_left_of_several_faults_is_as_if_it_were_alone(full: Lab) -> None:
    faults.fail(full, "p1.t0-0.t1-0", loss=0.25, direction="up")
    alone = state(full)
    others = [
        faults.fail(full, "p1", loss=0.5),
        faults.fail(full, "p1.t0-0", rate=0.5),
        faults.fail(full, "p1.t1-0"),
        faults.fail(full, "p1.t0-0.t1-0", corrupt=0.5),
    ]
    for fault in others:
        faults.heal(full, fault.number)
    assert settled(full, alone) == []


def test_a_target_heals_what_lies_inside_it(full: Lab) -> None:
    inside = faults.fail(full, "p1.t0-0.t1-1", silent=True).number
    outside = faults.fail(full, "h0", loss=0.1).number
    assert [f.number for f in faults.heal(full, "p1")] == [inside]
    assert [f.number for f in faults.active(full)] == [outside]


def test_a_fault_takes_milliseconds(full: Lab) -> None:
    faults.heal(full, faults.fail(full, "p1").number)
    times = []
    for _ in range(8):
        began = time.monotonic()
        fault = faults.fail(full, "p1.t0-0.t1-1")
        failed = time.monotonic()
        faults.heal(full, fault.number)
        times.append((failed - began, time.monotonic() - failed))
    # The best of them: what else the machine does is no matter of ours.
    assert min(t for t, _ in times) < 0.01
    assert min(t for _, t in times) < 0.01


# --- what each of them does ---------------------------------------------------------------------------------------


class Flow:
    """Numbered datagrams from host to host over one path."""

    def __init__(self, lab: Lab, src: str, dst: str, address: str) -> None:
        with entered(lab.namespace(dst)):
            self.into = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
            self.into.bind((lab.addresses(dst)[int(address.split(":")[1], 16) - 1], 0))
        with entered(lab.namespace(src)):
            self.out = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        self.to = address, self.into.getsockname()[1]
        self.into.setsockopt(socket.SOL_SOCKET, RCVBUFFORCE, 8 << 20)
        self.into.settimeout(0.3)

    def send(self, count: int = 1, size: int = 200) -> list[bytes]:
        """Send so many, and return what arrives."""
        for number in range(count):
            self.out.sendto(struct.pack(">Q", number) + bytes(size - 8), self.to)
        found: list[bytes] = []
        with contextlib.suppress(TimeoutError):
            while len(found) < count:
                found.append(self.into.recv(9000))
        return found

    def close(self) -> None:
        self.into.close()
        self.out.close()


@pytest.fixture
def flow(full: Lab) -> Iterator[Callable[[str, str, int], Flow]]:
    made: list[Flow] = []

    def make(src: str, dst: str, path: int = 0) -> Flow:
        made.append(Flow(full, src, dst, full.paths(src, dst)[path].address))
        return made[-1]

    yield make
    for one in made:
        one.close()


def up(lab: Lab, node: str, dev: str) -> bool:
    (link,) = json.loads(
        subprocess.check_output(["ip", "-n", lab.namespace(node), "-j", "link", "show", dev])
    )
    return "LOWER_UP" in link["flags"]


def test_both_ends_see_a_link_that_is_down(full: Lab, flow: Callable[..., Flow]) -> None:
    across = flow("h0", "h2")
    assert len(across.send(3)) == 3
    faults.fail(full, "h0.p1")
    assert not up(full, "h0", "p1")
    assert not up(full, "p1.t0-0", "h0")
    address = subprocess.check_output(["ip", "-n", full.namespace("h0"), "addr", "show", "p1"], text=True)
    assert full.addresses("h0")[0] in address


def test_nobody_sees_a_silent_hole_and_it_has_a_direction(full: Lab, flow: Callable[..., Flow]) -> None:
    there, back = flow("h0", "h2"), flow("h2", "h0")
    faults.fail(full, "h0.p1", silent=True, direction="up")
    assert up(full, "h0", "p1")
    assert up(full, "p1.t0-0", "h0")
    assert there.send(20) == []
    assert len(back.send(20)) == 20
    faults.heal(full, "h0.p1")
    assert len(there.send(20)) == 20


def test_a_link_takes_only_its_own_paths(full: Lab, flow: Callable[..., Flow]) -> None:
    ways = [p.switches for p in full.paths("h0", "h2")[:2]]
    assert [w[1] for w in ways] == ["t1-0", "t1-1"]
    first, second = flow("h0", "h2", 0), flow("h0", "h2", 1)
    faults.fail(full, "p1.t0-0.t1-0")
    assert first.send(5) == []
    assert len(second.send(5)) == 5


def test_loss_has_its_share(full: Lab, flow: Callable[..., Flow]) -> None:
    there = flow("h0", "h1")
    faults.fail(full, "h0.p1", loss=0.2, direction="up")
    faults.fail(full, "h0", loss=0.25, direction="up")
    count = 1000
    got = len(there.send(count))
    # 0.8 x 0.75 arrive; five standard deviations.
    assert abs(got - 0.6 * count) < 5 * (count * 0.6 * 0.4) ** 0.5


def test_corruption_changes_one_byte_and_packets_still_arrive(full: Lab, flow: Callable[..., Flow]) -> None:
    there = flow("h0", "h1")
    faults.fail(full, "h1.p1", corrupt=1.0, direction="down")
    size = 1000
    got = there.send(300, size)
    # Ports and lengths are hit too, in 8 of 1,008 bytes; then a datagram does not come.
    assert 270 <= len(got) <= 300
    wrong = [sum(byte != 0 for byte in data[8:]) for data in got]
    assert set(wrong) <= {0, 1}
    assert sum(wrong) > 280 * 0.9


def test_a_lower_rate_holds(full: Lab, flow: Callable[..., Flow]) -> None:
    there = flow("h0", "h1")
    faults.fail(full, "h0.p1", rate=0.01, direction="up")
    there.into.setsockopt(socket.SOL_SOCKET, TIMESTAMPNS, 1)
    there.into.settimeout(5)
    for _ in range(40):
        there.out.sendto(bytes(8000), there.to)
    times = []
    for _ in range(40):
        _, ((_, _, stamp),), _, _ = there.into.recvmsg(9000, 64)
        seconds, ns = struct.unpack("qq", stamp)
        times.append(seconds + ns / 1e9)
    rate = 19 * 8062 * 8 / (times[-1] - times[-20])
    assert 0.8 * 2e6 < rate < 1.25 * 2e6


def test_without_bpf_holes_and_loss_are_rules_and_corruption_is_refused(
    full: Lab, flow: Callable[..., Flow], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ends, "bpf_object", lambda: None)
    monkeypatch.setattr(ends, "why_no_bpf", lambda: "clang is not installed (apt install clang)")
    there = flow("h0", "h2")
    with pytest.raises(UsageError, match="clang"):
        faults.fail(full, "h0.p1", corrupt=0.1)
    assert faults.active(full) == []
    faults.fail(full, "p1.t0-0.t1-0", silent=True)
    assert there.send(20) == []
    faults.fail(full, "p1.t0-0.t1-0", loss=0.5)
    faults.heal(full)
    assert len(there.send(20)) == 20


# --- times --------------------------------------------------------------------------------------------------------


def test_a_timed_fault_ends_by_itself(full: Lab) -> None:
    fault = faults.fail(full, "h0.p1", seconds=0.3)
    assert fault.until_ns is not None
    assert poll(lambda: faults.active(full) == [], 20)
    late = (time.monotonic_ns() - fault.until_ns) / 1e9
    assert 0 <= late < 10


def test_a_flapping_fault_comes_and_goes_until_it_is_healed(full: Lab) -> None:
    faults.fail(full, "h0.p1", silent=True, flap=(0.1, 0.15))
    seen = []
    deadline = time.monotonic() + 20
    while len(seen) < 5 and time.monotonic() < deadline:
        on = faults.active(full)[0].on
        if not seen or seen[-1] != on:
            seen.append(on)
        time.sleep(0.01)
    assert seen == [True, False, True, False, True]


def poll(holds: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.02)
    return holds()


def keepers() -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and b"softmrc.lab.keeper" in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


def test_a_command_leaves_a_keeper_that_ends_with_its_fault(full: Lab) -> None:
    before = set(keepers())
    said = subprocess.run(
        [*CLI, "fail", "-n", full.name, "h1.p2", "--for", "400ms", "--json"], capture_output=True, check=True
    )
    fault = json.loads(said.stdout)
    assert (fault["links"], fault["on"]) == ({"h1.p2": "b"}, True)
    assert fault["until_ns"] - fault["since_ns"] == 400_000_000
    assert poll(lambda: faults.active(full) == [], 20)
    assert poll(lambda: set(keepers()) <= before, 20)


def test_a_keeper_ends_when_somebody_else_heals_its_fault(full: Lab) -> None:
    before = set(keepers())
    keeper.start(full, "h1.p2", Harm(silent=True), seconds=600)
    (pid,) = set(keepers()) - before
    faults.heal(full)
    assert poll(lambda: pid not in keepers(), 5)


def test_a_killed_keeper_leaves_a_fault_that_can_be_healed(full: Lab) -> None:
    before = set(keepers())
    keeper.start(full, "h1.p2", Harm(), flap=(5.0, 5.0))
    (pid,) = set(keepers()) - before
    os.kill(pid, signal.SIGKILL)
    assert poll(lambda: Process.of(pid) is None or pid not in keepers(), 5)
    assert [f.target for f in faults.heal(full)] == ["h1.p2"]


def test_nothing_of_a_fault_outlives_its_lab(lab_maker: Callable[..., Lab]) -> None:
    before = set(keepers())
    short = lab_maker(planes=1, t0=1, t1=0, hosts=2, switch="kernel")
    keeper.start(short, "h0.p1", Harm(), flap=(0.1, 0.1))
    assert ledger_file(short.name).exists()
    assert set(keepers()) > before
    short.down()
    assert not ledger_file(short.name).exists()
    assert poll(lambda: set(keepers()) <= before, 20)
    with pytest.raises(UsageError, match="no lab"):
        faults.fail(short, "h0.p1")


def test_a_process_that_is_killed_half_way_leaves_a_fault_that_can_be_healed(full: Lab) -> None:
    script = (
        "import os; from softmrc.lab import Lab, ends, faults; apply = ends.KernelLines.apply\n"
        "def dies(*args): apply(*args); os._exit(9)\n"
        f"ends.KernelLines.apply = dies; faults.fail(Lab.load({full.name!r}), 'p1.t0-0')"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 9
    assert differences(HEALTHY[full.name], state(full)) != []
    assert [f.target for f in faults.heal(full)] == ["p1.t0-0"]
    assert settled(full, HEALTHY[full.name]) == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["p9"], "planes p1 to p2"),
        (["p1", "--loss", "200%"], "--loss is a share"),
        (["p1", "--for", "soon"], "--for is a time"),
        (["p1", "--flap", "1s"], "200ms/800ms"),
        (["p1", "--end", "upper", "--loss", "1%"], "both ends stay up"),
        (["p1", "--dir", "sideways"], "both, up, down"),
    ],
)
def test_wrong_use_is_said_and_breaks_nothing(full: Lab, words: list[str], told: str) -> None:
    run = subprocess.run([*CLI, "fail", "-n", full.name, *words], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (2, "")
    assert told in run.stderr
    assert faults.active(full) == []


@pytest.mark.parametrize("target", ["99", "h1.p2", "p2"])
def test_healing_what_is_not_in_force_is_wrong_use_and_names_what_is(full: Lab, target: str) -> None:
    heal = [*CLI, "heal", "-n", full.name]
    run = subprocess.run([*heal, target], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout, "there are no faults" in run.stderr) == (2, "", True)
    number = faults.fail(full, "h0.p1", silent=True).number
    run = subprocess.run([*heal, target], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (2, "")
    assert f"in force: {number}: h0.p1 (1 link)" in run.stderr
    assert [f.number for f in faults.active(full)] == [number]
    faults.heal(full)
    assert subprocess.check_output(heal, text=True) == "no faults\n"


def test_a_direction_alone_is_a_hole_in_that_direction(full: Lab) -> None:
    run = [*CLI, "fail", "-n", full.name, "h0.p1", "--dir", "down", "--json"]
    said = json.loads(subprocess.check_output(run))
    assert said["harm"] == {"silent": True, "direction": "down"}
    listed = json.loads(subprocess.check_output([*CLI, "fail", "-n", full.name, "--json"]))
    assert [f["number"] for f in listed["faults"]] == [said["number"]]
    healed = json.loads(
        subprocess.check_output([*CLI, "heal", "-n", full.name, str(said["number"]), "--json"])
    )
    assert (len(healed["healed"]), healed["left"]) == (1, [])


# --- scripts ------------------------------------------------------------------------------------------------------

SCRIPT = """
seed = 7
[[fault]]
at = "100ms"
target = ["h0.p1", "h1.p1"]
for = "200ms"
[[fault]]
at = "50ms"
pick = { of = "t0-t1", count = 2 }
loss = "5%"
times = 3
every = "100ms"
for = "50ms"
[[fault]]
pick = { of = "t1", fraction = 0.5, plane = 2 }
silent = true
poisson = true
every = "60ms"
until = "400ms"
for = "20ms"
"""


def test_a_script_does_the_same_each_time_and_heals_at_its_end(full: Lab, tmp_path: Path) -> None:
    script = Script.parse(SCRIPT)
    plan = script.actions(full)
    assert plan == Script.parse(SCRIPT).actions(full)
    assert plan != Script.parse(SCRIPT.replace("seed = 7", "seed = 8")).actions(full)
    play = script.play(full)
    assert play.wait(20)
    assert play.errors == []
    assert [(e["at"], e["target"]) for e in play.log] == [(a.at, a.target) for a in plan]
    for entry in play.log:
        assert entry["due_ns"] == play.start_ns + round(entry["at"] * 1e9)
        assert entry["due_ns"] <= entry["begun_ns"] <= entry["done_ns"]
    assert all(a["done_ns"] <= b["begun_ns"] for a, b in itertools.pairwise(play.log))
    assert faults.active(full) == []
    # The log of a run is a script.
    log = tmp_path / "run.jsonl"
    log.write_text("".join(json.dumps(entry) + "\n" for entry in play.log))
    assert Script.load(log).actions(full) == plan


def test_a_stopped_script_heals_what_it_broke_and_nothing_else(full: Lab) -> None:
    other = faults.fail(full, "h3.p2", loss=0.5)
    play = Script.parse('[[fault]]\ntarget = "p1"\n[[fault]]\nat = "1h"\ntarget = "p2"\n').play(full)
    assert poll(lambda: len(faults.active(full)) == 2, 5)
    play.stop()
    assert [f.number for f in faults.active(full)] == [other.number]


def test_a_program_beside_a_script(full: Lab, tmp_path: Path) -> None:
    script, log = tmp_path / "s.toml", tmp_path / "s.jsonl"
    script.write_text('[[fault]]\ntarget = "h0.p1"\nat = "0s"\n')
    look = "import json,subprocess; print(subprocess.check_output(['ip','-j','link','show','p1']).decode())"
    wait = f"import time; time.sleep(0.3); {look}; raise SystemExit(7)"
    run = subprocess.run(
        [
            *CLI, "run", "-n", full.name, str(script), "--log", str(log), "--host", "h0",
            "--", sys.executable, "-c", wait,
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 7, run.stderr
    assert "NO-CARRIER" in run.stdout
    assert [json.loads(line)["target"] for line in log.read_text().splitlines()] == ["h0.p1"]
    assert faults.active(full) == []
