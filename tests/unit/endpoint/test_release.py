"""What an endpoint holds is given back at its end, and no error of the end hides the one before it."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Callable

import pytest
from tests.unit.endpoint.conftest import PLANES_A, PLANES_B, Joined, Opener

from softmrc import Endpoint, PeerError, Transfer, VerbsError
from softmrc.verbs import Access

_SILENCE = [{"down": True}]


def _write_and_forget(ep: Endpoint, port: int, source: str) -> Transfer:
    """Write over a connection that the caller never sees, from memory that nobody else knows."""
    conn = ep.connect_sync(PLANES_B[0], port)
    window = conn.remote_window_sync(20)
    ep.impair(_SILENCE)
    data = bytearray(os.urandom(100_000))
    return conn.write(ep.register(data) if source == "region" else data, window, imm=1)


def _fail() -> None:
    raise ZeroDivisionError


@pytest.mark.parametrize("source", ["region", "buffer"])
def test_the_error_of_the_block_is_seen_with_a_write_open(open_endpoint: Opener, source: str) -> None:
    listener = open_endpoint(*PLANES_B).listen(0, expose=bytearray(100_000))
    ep = Endpoint(*PLANES_A, linger=0.1)
    transfer = _write_and_forget(ep, listener.port, source)
    gc.collect()
    with pytest.raises(ZeroDivisionError) as caught, ep:
        _fail()
    assert not hasattr(caught.value, "__notes__")
    assert ep.closed
    assert ep.ctx.closed
    ep.close()
    with pytest.raises(PeerError, match="before the write was done"):
        transfer.result(0)


@pytest.mark.parametrize("source", ["region", "buffer"])
def test_the_end_with_a_write_open_raises_nothing(open_endpoint: Opener, source: str) -> None:
    listener = open_endpoint(*PLANES_B).listen(0, expose=bytearray(100_000))

    async def use() -> Transfer:
        async with Endpoint(*PLANES_A, linger=0.1) as ep:
            return await asyncio.to_thread(_write_and_forget, ep, listener.port, source)

    assert isinstance(asyncio.run(use()).exception(), PeerError)


def test_a_write_that_nobody_asked_about_and_a_peer_that_closed_first(open_endpoint: Opener) -> None:
    a = open_endpoint(*PLANES_A)
    with Endpoint(*PLANES_B, linger=2.0) as b:
        listener = b.listen(0, expose=bytearray(100_000))
        _write_and_forget(a, listener.port, "region")
        gc.collect()
        a.impair(None)
        assert listener.accept(20).recv_notification(20).imm == 1
    a.close()
    assert a.ctx.closed
    assert a.pd.closed


def test_a_region_lives_as_long_as_a_transfer_reads_it(join: Callable[..., Joined]) -> None:
    j = join()
    window = j.client.remote_window_sync(20)
    data = bytearray(os.urandom(100_000))
    j.a.impair(_SILENCE)
    transfer = j.client.write(j.a.register(data), window)
    gc.collect()
    with pytest.raises(BufferError):
        data.append(0)
    j.a.impair(None)
    assert transfer.result(20) == len(data)
    assert j.memory[: len(data)] == data
    data.append(0)  # no longer registered, though endpoint and connection are open


def test_a_region_of_a_failed_transfer_goes_with_the_connection(join: Callable[..., Joined]) -> None:
    j = join(linger=0.1)
    data = bytearray(100_000)
    window = j.client.remote_window_sync(20)
    j.a.impair(_SILENCE)
    transfer = j.client.write(j.a.register(data), window)
    j.client.abort()
    assert isinstance(transfer.exception(), PeerError)
    data.append(0)


def test_a_busy_region_is_a_note_on_the_error_of_its_block(join: Callable[..., Joined]) -> None:
    j = join(linger=0.1)
    window = j.client.remote_window_sync(20)
    j.a.impair(_SILENCE)
    region = j.a.register(bytearray(1024))
    j.client.write(region, window)
    with pytest.raises(ZeroDivisionError) as caught, region:
        _fail()
    assert "VerbsError" in caught.value.__notes__[0]
    assert not region.released
    with pytest.raises(VerbsError, match="busy"):
        region.release()
    j.a.close()
    assert region.released


def test_a_failing_end_is_a_note_on_the_error_of_the_block(
    join: Callable[..., Joined], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise VerbsError(5, "stop")

    j = join(linger=0.1)
    ep = j.a
    with monkeypatch.context() as patched:
        patched.setattr(ep.hub, "connections", refuse)
        with pytest.raises(ZeroDivisionError) as caught, ep:
            _fail()
    assert "VerbsError" in caught.value.__notes__[0]
    assert ep.ctx.closed  # the sockets are closed all the same
    j.client.abort()


def test_memory_registered_while_closing_goes_with_the_device(open_endpoint: Opener) -> None:
    """Another thread is between registering and saying so: the device takes it along."""
    ep = open_endpoint(PLANES_A[0])
    data = bytearray(16)
    ep.ctx.driver.reg_mr(ep.pd.handle, data, int(Access.LOCAL_WRITE), True, None)
    ep.close()
    assert ep.ctx.closed
    data.append(0)
