"""Processes: restarts on the same ports, forks, second owners of a port, leaks at exit."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
from tests.ports import free_port
from tests.unit.endpoint.conftest import Opener

from softmrc import Endpoint, Plane, UsageError, VerbsError


def test_second_owner_of_a_port_fails_loudly(open_endpoint: Opener) -> None:
    """B34."""
    first = open_endpoint("127.0.0.21", udp_port=4791)
    with pytest.raises(VerbsError) as caught:
        open_endpoint("127.0.0.21", udp_port=4791)
    assert caught.value.errno == errno.EADDRINUSE
    assert "127.0.0.21" in str(caught.value)
    server = first.listen(0)
    with pytest.raises(VerbsError) as caught:
        open_endpoint("127.0.0.22").listen("127.0.0.21", server.port)
    assert caught.value.errno == errno.EADDRINUSE
    assert open_endpoint("127.0.0.22", udp_port=4791).planes[0].udp_port == 4791


def test_an_address_of_nobody(open_endpoint: Opener) -> None:
    with pytest.raises(VerbsError) as caught:
        open_endpoint("192.0.2.1")
    assert caught.value.errno == errno.EADDRNOTAVAIL
    assert "192.0.2.1" in str(caught.value)


def test_plane_objects(open_endpoint: Opener) -> None:
    ep = open_endpoint(
        Plane(address="127.0.0.1", evs=3), Plane(address="127.0.0.2", evs=5, bits_per_second=10**9)
    )
    assert [len(p.evs) for p in ep.planes] == [3, 5]
    for arguments, knobs in ((), {}), (("127.0.0.1",), {"mpr": 0}), (("127.0.0.1",), {"nonsense": 1}):
        with pytest.raises(UsageError):
            Endpoint(*arguments, **knobs)


def test_a_new_incarnation_ignores_packets_of_the_old(open_endpoint: Opener) -> None:
    """B37: the peer of a dead predecessor keeps sending; nothing of it is placed."""
    tcp, udp = free_port(socket.SOCK_STREAM, "127.0.0.23"), free_port(socket.SOCK_DGRAM, "127.0.0.23")
    client = open_endpoint("127.0.0.1", linger=0.1)
    old = Endpoint("127.0.0.23", udp_port=udp, linger=0.0)
    server = old.listen(tcp, expose=bytearray(1000))
    conn = client.connect_sync("127.0.0.23", tcp)
    window = conn.remote_window_sync(20)
    conn.write(b"x", window).result(20)
    generation = old.generation
    old.impair([{"down": True}])  # it dies without a word
    server.close()
    old.close()
    memory = bytearray(1000)
    new = open_endpoint("127.0.0.23", udp_port=udp)
    new.listen(tcp, expose=memory)
    again = client.connect_sync("127.0.0.23", tcp)
    assert new.generation != generation == conn.peer_generation
    stale = conn.write(b"stale" * 100, window)
    again.write(b"fresh", again.remote_window_sync(20)).result(20)
    deadline = time.monotonic() + 10
    while not new.stats().drops["bad_qpn"] and time.monotonic() < deadline:
        stale.wait(0.05)
    assert new.stats().drops["bad_qpn"] > 0
    assert not stale.done()
    assert memory == b"fresh" + bytes(995)
    conn.abort()


_SERVER = """
import sys
from softmrc import Endpoint
memory = bytearray(64)
ep = Endpoint("127.0.0.24", udp_port=int(sys.argv[2]))
server = ep.listen(int(sys.argv[1]), expose=memory)
print("up", flush=True)
server.accept().recv_notification()
print(bytes(memory[:4]).decode(), flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_twenty_restarts_on_the_same_ports(open_endpoint: Opener) -> None:
    """B37: kill -9, start again at once, each time with a client of the one before still talking."""
    tcp, udp = free_port(socket.SOCK_STREAM, "127.0.0.24"), free_port(socket.SOCK_DGRAM, "127.0.0.24")
    client = open_endpoint("127.0.0.1", linger=0.0)
    for turn in range(20):
        with subprocess.Popen(
            [sys.executable, "-c", _SERVER, str(tcp), str(udp)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        ) as server:  # fmt: skip
            assert server.stdout is not None
            assert server.stdout.readline() == "up\n", turn
            conn = client.connect_sync("127.0.0.24", tcp)
            word = f"{turn:04}".encode()
            conn.write(word, conn.remote_window_sync(20), imm=turn).result(20)
            assert server.stdout.readline() == word.decode() + "\n"
            for _ in range(8):
                conn.write(b"late" * 10, conn.remote_window_sync(20))
            server.send_signal(signal.SIGKILL)


def _in_child(work: object) -> int:
    """Run `work` in a forked child; its exit status, 0 when it returned."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()  # type: ignore[operator]
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_is_refused_and_harmless(open_endpoint: Opener) -> None:
    """B36."""
    a, b = open_endpoint("127.0.0.1"), open_endpoint("127.0.0.3")
    memory = bytearray(100_000)
    server = b.listen(0, expose=memory)
    conn = a.connect_sync("127.0.0.3", server.port)
    window = conn.remote_window_sync(20)

    def misuse() -> None:
        for call in (
            a.stats,
            a.listen,
            lambda: a.register(bytearray(1)),
            lambda: conn.write(b"x", window),
            lambda: conn.send_message(b"x"),
            lambda: a.connect_sync("127.0.0.3", server.port),
        ):
            with pytest.raises(UsageError, match="forked"):
                call()
        with pytest.raises(VerbsError) as caught:
            a.ctx.stats()
        assert caught.value.errno == errno.ECHILD
        for thing in (conn, server, a, b):
            thing.close()

    def fresh() -> None:
        with Endpoint("127.0.0.1") as mine, Endpoint("127.0.0.2") as other:
            link = mine.connect_sync("127.0.0.2", other.listen(0).port)
            assert link.send_message(b"x").result(20) == 1

    assert _in_child(misuse) == 0
    assert _in_child(fresh) == 0
    assert conn.write(b"p" * 100_000, window, imm=3).result(20) == 100_000
    assert server.accept(20).recv_notification(20).imm == 3


_LIFE = """
import asyncio, gc, sys
import numpy as np
from softmrc import Endpoint, verbs, ctl

a, b = Endpoint("127.0.0.1"), Endpoint("127.0.0.2")
memory = bytearray(1 << 20)
server = b.listen(0, expose=memory, token="t")
conn = a.connect_sync("127.0.0.2", server.port, token="t")
conn.write(np.ones(1000), conn.remote_window_sync(20), imm=1).result(20)
conn.send_message(b"m").result(20)
peer = server.accept(20)
peer.recv_notification(20)

async def also():
    asyncio.get_running_loop().slow_callback_duration = 10.0  # a busy host is no leak
    async with await a.connect("127.0.0.2", server.port, token="t") as second:
        await second.send_message(b"x")

asyncio.run(also())
with ctl.Controller("mrc0") as c:
    c.modify_cc_profile(1, ctl.CcProfile("uet-1.0-nscc"), state="online")
ctx = verbs.Context("mrc1", ["127.0.0.5"], udp_port=0)
pd = verbs.PD(ctx)
mr = verbs.MR(pd, 4096, verbs.Access.LOCAL_WRITE)
if sys.argv[1] == "tidy":
    conn.close(); peer.close(); server.close(); a.close(); b.close(); ctx.close()
"""


@pytest.mark.parametrize("how", ["tidy", "sloppy"])
def test_nothing_leaks_at_exit(how: str) -> None:
    """A leak report of the bindings, or any other word at exit, is a failure."""
    run = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", _LIFE, how],
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert run.stderr == ""
    assert run.returncode == 0


def test_blocking_calls_let_other_threads_run(open_endpoint: Opener) -> None:
    """The GIL is free in every blocking call: another thread makes progress meanwhile."""
    a, b = open_endpoint("127.0.0.1"), open_endpoint("127.0.0.3")
    server = b.listen(0)
    conn = a.connect_sync("127.0.0.3", server.port)
    counted = 0
    stop = threading.Event()

    def count() -> None:
        nonlocal counted
        while not stop.is_set():
            counted += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    try:
        for blocking in (
            lambda: conn.recv_message_sync(0.2),
            lambda: conn.recv_notification(0.2),
            lambda: conn.remote_window_sync(0.2),
            lambda: server.accept(0.2) and server.accept(0.2),
            lambda: a.ctx.get_async_event(0.2),
        ):
            # About 200 turns in 0.2 s. A busy host may leave the other thread none of them, but not ten times over;
            # a call that keeps the GIL leaves it none ever, but for one at each of its ends.
            for _ in range(10):
                before = counted
                with contextlib.suppress(TimeoutError):
                    blocking()
                if counted - before > 20:
                    break
            assert counted - before > 20
    finally:
        stop.set()
        thread.join()


def test_the_io_thread_needs_no_gil(open_endpoint: Opener) -> None:
    """A write of 8 MiB arrives while Python holds the GIL in one long call."""
    a, b = open_endpoint("127.0.0.1"), open_endpoint("127.0.0.3")
    memory = bytearray(8 << 20)
    conn = a.connect_sync("127.0.0.3", b.listen(0, expose=memory).port)
    window = conn.remote_window_sync(20)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    try:
        conn.write(b"g" * len(memory), window)
        deadline = time.monotonic() + 20
        while memory[-1] == 0 and time.monotonic() < deadline:
            sum(range(1000))
        assert memory[-1] == ord("g")
    finally:
        sys.setswitchinterval(interval)
