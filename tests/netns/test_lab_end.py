"""Labs begin and end whole: twice down, killed makers, five equal runs, nothing left, room for many nodes."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from softmrc.cli.lab import lab as app
from softmrc.errors import MrcError, UsageError
from softmrc.lab import Lab, LabSpec
from softmrc.lab.names import namespace
from softmrc.lab.probe import probe
from softmrc.lab.remove import end_lab, leftovers, sweep
from softmrc.lab.snapshot import differences
from softmrc.lab.state import LabState, Process, directory, known
from softmrc.netns.enter import create, delete, entered, names, processes

SMALL = {"planes": 1, "t0": 1, "t1": 0, "hosts": 2, "rate_bps": None, "trimming": False}


@pytest.fixture
def name() -> Iterator[str]:
    found = f"e{os.getpid()}"
    yield found
    end_lab(found)


def wait(until: Callable[[], bool], seconds: float = 10) -> bool:
    deadline = time.monotonic() + seconds
    while not until() and time.monotonic() < deadline:
        time.sleep(0.02)
    return until()


def nothing_left(name: str) -> list[str]:
    return names(f"{name}-") + [f.name for f in directory().glob(f"{name}.*")]


def test_down_ends_programs_and_helpers_and_may_come_twice(name: str) -> None:
    lab = Lab.up(LabSpec(name=name, **SMALL))
    sleeper = lab.popen("h0", "sleep", "1000")
    stubborn = lab.popen("h1", "sh", "-c", "trap '' TERM; while :; do sleep 1; done")
    helper = subprocess.Popen(["sleep", "1000"])
    lab.adopt(helper.pid)
    assert wait(lambda: len(processes([lab.namespace("h0"), lab.namespace("h1")])) >= 3)
    others = Lab.load(name)
    assert len(others.down()) == 3
    assert others.down() == []
    assert [p.wait(20) for p in (sleeper, stubborn, helper)] == [
        -signal.SIGTERM,
        -signal.SIGKILL,
        -signal.SIGTERM,
    ]
    assert lab.down() == []
    assert nothing_left(name) == []
    with pytest.raises(UsageError, match=f"no lab {name}"):
        Lab.load(name)


def test_a_second_lab_of_the_same_name_is_refused_and_the_first_stays(name: str) -> None:
    with Lab.up(LabSpec(name=name, **SMALL)) as lab:
        with pytest.raises(UsageError, match="up already"):
            Lab.up(LabSpec(name=name, **SMALL))
        assert lab.verify().whole
    assert nothing_left(name) == []


def test_namespaces_of_others_are_left_alone(name: str) -> None:
    own = namespace(name, "h1")
    create([own])
    try:
        with pytest.raises(UsageError, match=f"{own} that no lab"):
            Lab.up(LabSpec(name=name, **SMALL))
        assert (names(f"{name}-"), name in known()) == ([own], False)
    finally:
        delete([own])


def test_what_stands_in_the_way_leaves_nothing_half_created(name: str) -> None:
    """A namespace of one of the lab's nodes cannot be made: all that was made before it goes (B43)."""
    blocked = f"/run/netns/{namespace(name, 'p1.t0-0')}"
    Path(blocked).mkdir()
    try:
        with pytest.raises(MrcError, match="p1t0-0"):
            Lab.up(LabSpec(name=name, **SMALL))
        assert names(f"{name}-") == [Path(blocked).name]
        assert name not in known()
    finally:
        Path(blocked).rmdir()


def test_five_equal_runs_one_killed_leave_equal_states_and_nothing_b45(name: str) -> None:
    script = textwrap.dedent(f"""
        import sys, time
        from softmrc.lab import Lab, LabSpec
        with Lab.up(LabSpec(name={name!r}, planes=2, t0=2, t1=2, hosts=2)) as lab:
            lab.popen("h0", "sleep", "1000")
            print("up", flush=True)
            sys.stdin.readline()
    """)
    states = []
    for run in range(1, 6):
        child = subprocess.Popen(
            [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        with child:
            assert child.stdout is not None
            assert child.stdin is not None
            assert child.stdout.readline() == "up\n"
            lab = Lab.load(name)
            states.append(lab.snapshot())
            lab.close()
            inside = processes(names(f"{name}-"))
            assert len(inside) == 1
            if run == 3:
                child.kill()
            else:
                child.stdin.write("\n")
                child.stdin.flush()
            child.wait(20)
        if run == 3:
            assert leftovers(name)  # nobody could clean up; the next run does, or down
            assert (name in sweep(), nothing_left(name)) == (True, [])
        assert nothing_left(name) == []
        assert wait(lambda pids=tuple(inside): not any(Process.of(p) for p in pids))
    for state in states[1:]:
        assert differences(states[0], state) == []


@pytest.mark.parametrize(
    "step", ["namespaces", "links", "addresses and routes", "queues", "waiting for the links"]
)
def test_up_killed_half_way_is_cleaned_by_down_and_by_the_next_up(name: str, step: str) -> None:
    script = textwrap.dedent(f"""
        import os, signal, sys
        from softmrc.lab import Lab, LabSpec, build
        count = 0
        def die(text):
            if text == {step!r}:
                os.kill(os.getpid(), signal.SIGKILL)
        Lab.up(LabSpec(name={name!r}, planes=1, t0=2, t1=1, hosts=2), keep=True, step=die)
    """)
    died = subprocess.run([sys.executable, "-c", script], timeout=30, check=False, capture_output=True)
    assert died.returncode == -signal.SIGKILL, died.stderr
    state = LabState.load(name)
    assert state is not None
    assert (state.phase, state.abandoned) == ("building", True)
    with pytest.raises(UsageError, match="unfinished"):
        Lab.load(name)
    with Lab.up(LabSpec(name=name, planes=1, t0=2, t1=1, hosts=2)) as lab:
        assert lab.verify().whole
    assert nothing_left(name) == []


def test_a_damaged_state_file_does_not_keep_down_from_cleaning(name: str) -> None:
    Lab.up(LabSpec(name=name, **SMALL), keep=True).close()
    (directory() / f"{name}.json").write_text("{")
    with pytest.raises(MrcError, match=f"lab down --name {name}"):
        Lab.load(name)
    assert len(end_lab(name)) == 3
    assert nothing_left(name) == []


def test_a_kept_lab_outlives_its_maker_and_other_processes_use_it(name: str, tmp_path: Path) -> None:
    def cli(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "softmrc.cli.app", "lab", *words, "--name", name]
        return subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)

    def shown(*words: str) -> Result:
        return CliRunner().invoke(app, [*words, "--name", name])

    pcap = tmp_path / "up.pcap"
    wrong = cli("up", "--pcap", f"h9.p1={pcap}")
    assert (wrong.returncode, "no link h9.p1" in wrong.stderr) == (2, True)
    options = "--planes=1 --t0=2 --t1=1 --hosts=2 --rate=100M --json"
    made = cli("up", *options.split(), "--pcap", f"h1.p1={pcap}")
    assert made.returncode == 0, made.stderr
    assert '"rate_bps": 100000000, "fabric_rate_bps": 100000000' in made.stdout
    assert '"switches": 3' in made.stdout
    assert sweep() == []
    tested = cli("test", "--json")
    assert '"paths_ok": 2, "paths_total": 2' in tested.stdout
    assert wait(lambda: b"\x20\x00" in pcap.read_bytes()[24:])  # T1 0 in the list that h1 sent
    assert shown("status").exit_code == 0
    with entered(namespace(name, "p1.t1-0")):
        subprocess.run(["ip", "-6", "route", "del", "fc00:1:1001::/48"], check=True)
    status = shown("status")
    assert (status.exit_code, "route to fc00:1:1001::/48" in status.output) == (1, True)
    assert shown("test").exit_code == 1
    assert shown("repair").exit_code == 0
    assert shown("fail", "h0.p1", "--silent").exit_code == 0
    status = shown("status")
    assert (status.exit_code, "faults (1): h0.p1 silent" in status.output) == (1, True)
    status = shown("status", "--json")
    assert (status.exit_code, '"ok": false' in status.output, '"h0.p1"' in status.output) == (1, True, True)
    assert shown("heal").exit_code == 0
    assert shown("status").exit_code == 0
    assert cli("down").returncode == shown("down").exit_code == 0
    assert shown("status").exit_code == 2
    assert nothing_left(name) == []


def test_programs_of_the_queues_go_with_the_lab(name: str) -> None:
    """No BPF program stays: they hang on the queues, those on the links, those in the namespaces."""
    if shutil.which("bpftool") is None:
        pytest.skip("needs bpftool")
    lab = Lab.up(LabSpec(name=name, planes=1, t0=2, t1=1, hosts=2))
    try:
        if not lab.state.more["trimming"]:
            pytest.skip(", ".join(lab.state.notes))
        text = lab.run("p1.t0-0", "tc", "-j", "filter", "show", "dev", "t1-0", "egress")
        numbers = [f["options"]["prog"]["id"] for f in json.loads(text) if "options" in f]
        assert numbers
    finally:
        lab.down()

    def shown(number: int) -> bool:
        show = ["bpftool", "prog", "show", "id", str(number)]
        return subprocess.run(show, capture_output=True, check=False).returncode == 0

    assert wait(lambda: not any(shown(n) for n in numbers), 20)


def test_the_fixtures_as_projects_use_them(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["softmrc.lab.pytest"]\n')
    (tmp_path / "test_mine.py").write_text(
        textwrap.dedent("""
            def test_small(lab):
                assert lab.run("h1", "ip", "-br", "addr").count("fc00:") == 2
            def test_same(lab, lab_maker):
                with lab_maker(planes=1, t0=1, t1=0, hosts=2) as other:
                    assert other.name != lab.name
                    assert len(other.paths("h0", "h1")) == 1
        """)
    )
    before = set(known())
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False, cwd=tmp_path)
    assert "2 passed" in done.stdout, done.stdout
    assert not {n for n in set(known()) - before if (state := LabState.load(n)) and state.abandoned}


@pytest.mark.slow
def test_128_nodes_reach_each_other_without_loss_b44(name: str) -> None:
    """96 hosts and 32 switches: every ordered pair of hosts, one packet, none lost."""
    with Lab.up(LabSpec(name=name, planes=1, t0=16, t1=16, hosts=96, rate_bps=None)) as lab:
        assert len(lab.nodes) == 128
        sockets = [lab.socket(h, 1, 7777) for h in lab.hosts]
        arrived = 0
        for src, sender in enumerate(sockets):
            for dst in range(len(sockets)):
                if dst != src:
                    ways = lab.paths(f"h{src}", f"h{dst}")
                    sender.sendto(b"x", (ways[(src + dst) % len(ways)].address, 7777))
            for dst, receiver in enumerate(sockets):
                if dst != src:
                    receiver.settimeout(2)
                    arrived += receiver.recvfrom(9)[1][0] == lab.addresses(f"h{src}")[0]
        for one in sockets:
            one.close()
        assert arrived == 96 * 95
    assert nothing_left(name) == []


@pytest.mark.parametrize("flags", ["-Urn", "-Urnm"])
def test_a_user_namespace_that_ends_takes_its_lab_along(name: str, flags: str, tmp_path: Path) -> None:
    script = f"{sys.executable} -m softmrc.cli.app lab up --name {name} --planes 1 --t0 1 --t1 0 --hosts 2"
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}

    def up() -> subprocess.CompletedProcess[str]:
        command = ["unshare", flags, "sh", "-c", f"{script} && readlink /proc/self/ns/user"]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=50, check=False, env=environment
        )

    done = up()
    if "unshare failed" in done.stderr:
        pytest.skip(f"needs user namespaces: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    inside = done.stdout.splitlines()[-1]
    assert wait(lambda: inside not in user_namespaces())
    assert up().returncode == 0  # what the first left on disk does not stand in the way


@pytest.mark.parametrize(
    ("without", "named"),
    [
        ("net_admin", "CAP_NET_ADMIN"),
        ("sys_admin", "CAP_SYS_ADMIN"),
        ("all", "CAP_NET_ADMIN and CAP_SYS_ADMIN"),
    ],
)
def test_root_without_a_capability_gets_the_user_space_switch_or_the_reason_b43(
    name: str, without: str, named: str
) -> None:
    if shutil.which("setpriv") is None:
        pytest.skip("needs setpriv")
    fewer = ["setpriv", f"--bounding-set=-{without}", f"--inh-caps=-{without}"]

    def up(*words: str) -> subprocess.CompletedProcess[str]:
        lab = [
            sys.executable,
            "-m",
            "softmrc.cli.app",
            "lab",
            "up",
            "--name",
            name,
            "--planes=1",
            "--hosts=2",
        ]
        return subprocess.run([*fewer, *lab, *words], capture_output=True, text=True, timeout=50, check=False)

    refused = up("--switch=kernel", "--json")
    assert (refused.returncode, named in refused.stderr) == (2, True), refused.stderr
    assert nothing_left(name) == []
    made = up("--switch=auto", "--t1=1", "--json")
    assert made.returncode == 0, made.stderr
    assert '"mode": "soft"' in made.stdout
    assert named in made.stdout
    lab = Lab.load(name)
    found = probe(lab)
    lab.close()
    assert (found.paths_ok, found.paths_total) == (2, 2)
    assert end_lab(name) == []
    assert nothing_left(name) == []


def user_namespaces() -> set[str]:
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                found.add(os.readlink(entry / "ns/user"))
    return found


@pytest.mark.parametrize("flags", ["-Urn", "-Urnm"])
def test_in_a_user_namespace(name: str, flags: str) -> None:
    """Without root on the host: the lab stands, works from other processes, and goes (limits: no BPF there)."""
    lab = f"{sys.executable} -m softmrc.cli.app lab"
    script = (
        f"{lab} up --name {name} --planes 1 --t0 2 --t1 2 --hosts 2 --no-trimming >&2 && {lab} test --name {name};"
        f" {lab} exec --name {name} h0 -- ip -br addr show dev p1; {lab} down --name {name};"
        f" {lab} down --name {name}"
    )
    try:
        done = subprocess.run(
            ["unshare", flags, "sh", "-c", script], capture_output=True, text=True, timeout=50, check=False
        )
    except FileNotFoundError:
        pytest.skip("needs user namespaces (unshare)")
    if "unshare failed" in done.stderr:
        pytest.skip(f"needs user namespaces: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    first, second, third, last = done.stdout.splitlines()
    assert first.startswith("4 of 4 paths ok")
    assert "fc00:1:8000::/128" in second
    assert third.startswith(f"lab {name} is down (6 namespaces")
    assert last == f"there is no lab {name}"
