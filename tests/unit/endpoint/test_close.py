"""Ends of connections: orderly, abrupt, and by loss of the peer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest
from tests.unit.endpoint.conftest import PLANES_A, PLANES_B, Joined, Opener

from softmrc import Endpoint, PeerClosedError, PeerError, UsageError


def test_close_waits_for_what_was_written(joined: Joined) -> None:
    """B06: nothing is lost when a peer goes right after its last write."""
    data = os.urandom(len(joined.memory))
    transfer = joined.client.write(data, joined.client.remote_window_sync(20), imm=5)
    message = joined.client.send_message(b"last words")
    joined.client.close()
    assert transfer.result(0) == len(data)
    assert message.done()
    assert joined.memory == data
    assert joined.server.recv_notification(20).imm == 5
    assert joined.server.recv_message_sync(20) == b"last words"
    with pytest.raises(PeerClosedError):
        joined.server.recv_notification(20)
    with pytest.raises(PeerClosedError):
        joined.server.recv_message_sync(20)
    with pytest.raises(PeerClosedError):
        joined.server.write(b"x", joined.client.remote_window_sync(20))
    joined.client.close()
    joined.server.close()


def test_the_closing_side_waits_for_the_other_direction(join: Callable[..., Joined]) -> None:
    j = join()
    target = bytearray(1 << 20)
    region = j.client.register(target)
    j.client.expose(region)
    transfer = j.server.write(os.urandom(1 << 20), j.server.remote_window_sync(20))
    j.client.close()
    assert transfer.result(20) == 1 << 20


def test_both_close_at_once(joined: Joined) -> None:
    threads = [threading.Thread(target=c.close) for c in (joined.client, joined.server)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(10)
    assert not any(t.is_alive() for t in threads)
    assert joined.client.closed
    assert joined.server.closed


def test_abort_is_told_to_the_peer(joined: Joined) -> None:
    with pytest.raises(ZeroDivisionError), joined.client:
        _ = 1 / 0
    with pytest.raises(PeerError, match="aborted"):
        joined.server.recv_message_sync(20)


def test_close_gives_up_on_a_silent_peer(join: Callable[..., Joined]) -> None:
    j = join()
    transfer = j.client.write(b"x", j.client.remote_window_sync(20))
    transfer.result(20)
    j.a.impair([{"down": True}])
    stuck = j.client.write(b"y", j.client.remote_window_sync(20))
    with pytest.raises(PeerError, match="did not acknowledge"):
        j.client.close(timeout=0.2)
    with pytest.raises(PeerError, match="before the write was done"):
        stuck.result(0)


def test_a_lost_peer_is_named(join: Callable[..., Joined]) -> None:
    """B05, all planes: one error, with peer, planes tried and last good time."""
    j = join(hold_time=0.4, name=None)
    window = j.client.remote_window_sync(20)
    j.b.impair([{"down": True}])
    with pytest.raises(PeerError) as caught:
        j.client.write(b"x" * 10_000, window).result(20)
    text = str(caught.value)
    for part in (j.b.name, *PLANES_A, *PLANES_B, "last heard", "firewall"):
        assert part in text
    with pytest.raises(PeerError, match="is lost"):
        j.client.write(b"y", j.client.remote_window_sync(20))


def test_an_idle_connection_notices_a_dead_peer(join: Callable[..., Joined]) -> None:
    j = join(hold_time=0.4, keepalive=0.2)
    j.b.impair([{"down": True}])
    with pytest.raises(PeerError, match="is lost"):
        j.client.recv_message_sync(10)


def test_an_idle_connection_lives(join: Callable[..., Joined]) -> None:
    # A hold time longer than a busy host makes both ends wait; without keepalives it would be over in the call.
    j = join(hold_time=1.5, keepalive=0.2)
    with pytest.raises(TimeoutError):
        j.client.recv_message_sync(3.5)
    assert j.client.send_message(b"alive").result(20) == 5


_WRITER = """
import sys
from softmrc import Endpoint
ep = Endpoint("127.0.0.1", "127.0.0.2")
conn = ep.connect_sync("127.0.0.3", int(sys.argv[1]))
conn.write(b"four", conn.remote_window_sync(20), imm=4)
if sys.argv[2] == "hang":
    print("ready", flush=True)
    sys.stdin.read()
"""


def _writer(port: int, how: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(port), how],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_exit_right_after_a_write(open_endpoint: Opener) -> None:
    """B06: no close, no wait; the interpreter's end lingers."""
    memory = bytearray(64)
    listener = open_endpoint(*PLANES_B).listen(0, expose=memory)
    child = _writer(listener.port, "exit")
    conn = listener.accept(20)
    assert conn.recv_notification(10).imm == 4
    assert memory[:4] == b"four"
    with pytest.raises(PeerClosedError):
        conn.recv_notification(10)
    assert child.communicate(timeout=20) == ("", "")
    assert child.returncode == 0


def test_a_killed_peer(open_endpoint: Opener) -> None:
    memory = bytearray(64)
    listener = open_endpoint(*PLANES_B, hold_time=0.5, keepalive=0.2).listen(0, expose=memory)
    child = _writer(listener.port, "hang")
    conn = listener.accept(20)
    assert conn.recv_notification(10).imm == 4
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    child.send_signal(signal.SIGKILL)
    child.communicate(timeout=20)
    with pytest.raises(PeerError, match="is lost"):
        conn.recv_notification(15)


def test_a_closed_endpoint_says_so(open_endpoint: Opener) -> None:
    ep = open_endpoint("127.0.0.1")
    listener = ep.listen(0)
    ep.close()
    ep.close()
    for call in (
        ep.stats,
        ep.listen,
        lambda: ep.register(bytearray(1)),
        lambda: ep.connect_sync("127.0.0.1", 1),
    ):
        with pytest.raises(UsageError, match="closed"):
            call()
    with pytest.raises(UsageError, match="closed"):
        listener.accept(1)


def test_closing_the_endpoint_closes_connections_in_order(open_endpoint: Opener) -> None:
    b = open_endpoint(*PLANES_B)
    memory = bytearray(100_000)
    listener = b.listen(0, expose=memory)
    with Endpoint(*PLANES_A) as a:
        conn = a.connect_sync(PLANES_B[0], listener.port)
        conn.write(b"q" * 100_000, conn.remote_window_sync(20), imm=1)
    assert listener.accept(20).recv_notification(0).imm == 1
    assert memory == b"q" * 100_000
