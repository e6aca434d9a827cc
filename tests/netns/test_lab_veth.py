"""The user-space switch with hosts in namespaces: any program reaches the fabric, and the kernel knows no uSID."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from softmrc.errors import UsageError
from softmrc.lab import Lab
from softmrc.lab.faults import fail, heal
from softmrc.lab.probe import probe
from softmrc.netns.enter import names

_SERVER = """
import socket, sys
sock = socket.create_server((sys.argv[1], 4000), family=socket.AF_INET6)
print("ready", flush=True)
conn, _ = sock.accept()
total = 0
while data := conn.recv(1 << 20):
    total += len(data)
conn.sendall(b"%d" % total)
"""
_CLIENT = """
import socket, sys
sock = socket.create_connection((sys.argv[1], 4000))
sock.sendall(bytes(4 << 20))
sock.shutdown(socket.SHUT_WR)
print(sock.recv(100).decode())
"""
_IN_A_SPACE = """
import sys
from softmrc.lab import Lab, LabSpec
from softmrc.lab.probe import probe
with Lab.up(LabSpec(name=sys.argv[1], planes=2, t0=2, t1=2, hosts=2, switch="veth")) as lab:
    found = probe(lab)
    print(found.paths_ok, found.paths_total)
"""


@pytest.fixture(scope="module")
def veth(lab_maker: Callable[..., Lab]) -> Iterator[Lab]:
    made = lab_maker(planes=2, t0=2, t1=2, hosts=4, switch="veth", rate_bps=200_000_000)
    yield made
    name = made.name
    made.down()
    assert names(f"{name}-") == []


def _within(condition: Callable[[], Any], seconds: float = 5.0) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def test_every_path_passes_the_switches_it_names(veth: Lab) -> None:
    found = probe(veth)
    assert (found.paths_ok, found.paths_total, found.failures) == (40, 40, [])


def test_tcp_has_a_way_and_its_checksums_hold(veth: Lab) -> None:
    address = veth.addresses("h3")[1]
    server = veth.popen("h3", sys.executable, "-c", _SERVER, address, stdout=subprocess.PIPE)
    assert server.stdout is not None
    assert server.stdout.readline().strip() == "ready"
    assert veth.run("h0", sys.executable, "-c", _CLIENT, address, timeout=30).strip() == str(4 << 20)
    server.wait(10)
    server.stdout.close()


def test_programs_of_ours_spray_and_survive_a_dead_port(veth: Lab) -> None:
    command = [sys.executable, "-c", "from softmrc.cli.app import main; main()", "perf"]
    server = veth.popen("h2", *command, "--once", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert server.stderr is not None
    assert "listening" in server.stderr.readline()
    client = veth.popen(
        "h1", *command, *(",".join(veth.addresses("h2")),), "-s", "256k", "-D", "2", stdout=subprocess.PIPE
    )
    before = veth.counters()
    assert _within(lambda: veth.counters()["p2.t1-1"].packets > before["p2.t1-1"].packets + 50, 10)
    fail(veth, "h2.p1")
    try:
        assert _within(lambda: "NO-CARRIER" in veth.run("h2", "ip", "link", "show", "p1"))
    finally:
        heal(veth)
    assert _within(lambda: "NO-CARRIER" not in veth.run("h2", "ip", "link", "show", "p1"))
    out, _ = client.communicate(timeout=30)
    assert client.returncode == 0, out
    server.communicate(timeout=30)
    assert probe(veth).failures == []


def test_switches_have_no_namespace(veth: Lab) -> None:
    with pytest.raises(UsageError, match="no network namespace"):
        veth.namespace("p1.t0-0")
    with pytest.raises(UsageError, match="no program runs in it"):
        veth.run("p1.t0-0", "true")


def test_in_a_user_namespace_of_an_ordinary_user(tmp_path: Path) -> None:
    if shutil.which("setpriv") is None:
        pytest.skip("needs setpriv")
    tried = subprocess.run(["unshare", "-Urnm", "true"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        pytest.skip(f"needs user namespaces: {tried.stderr.strip()}")
    script = f"mount -t tmpfs none /run && exec {sys.executable} -c '{_IN_A_SPACE}' veth{os.getpid()}"
    done = subprocess.run(
        ["unshare", "-Urnm", "sh", "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.split() == ["8", "8"], done.stderr
