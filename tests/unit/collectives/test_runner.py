"""The runner of collectives over real sockets on loopback: results, waiting, buffers, failures, forks."""

from __future__ import annotations

import errno
import gc
import os
import select
import threading
import time
import weakref
from typing import Any

import pytest
from tests.unit.collectives._runners import (
    COPY,
    EAGER,
    F32,
    I32,
    INPUT,
    NS,
    OUTPUT,
    RECV,
    SEND,
    U8,
    exchange_eager,
    halves,
    ranks_of,
    submit_all,
)  # fmt: skip

from softmrc._core import CollProgram, CollRunner, NetDriver, coll_reduce, coll_scale

np = pytest.importorskip("numpy")
DEADLINE = 20 * NS


def _inputs(n: int) -> list[Any]:
    return [np.arange(n, dtype=np.float32) * (r + 1) for r in range(2)]


@pytest.mark.parametrize("n", [1, 256, 4096])
def test_small_all_reduce_is_one_message_each_way(n: int) -> None:
    with ranks_of(2) as ranks:
        ins, outs = _inputs(n), [np.zeros(n, np.float32) for _ in range(2)]
        jobs = submit_all(ranks, [exchange_eager(r, n * 4) for r in range(2)], ins, outs)
        assert [j.wait(DEADLINE) for j in jobs] == [1, 1]
        assert all((out == ins[0] + ins[1]).all() for out in outs)
        assert [r.runner.stats()["eager_tx"] for r in ranks] == [1, 1]
        assert jobs[0].bytes() == 2 * n * 4
        assert jobs[0].failure() is None


def test_large_all_reduce_in_place_and_several_in_flight() -> None:
    n = 1 << 18
    with ranks_of(2) as ranks:
        data = [[np.full(n, r + k, np.float32) for r in range(2)] for k in range(4)]
        jobs = [
            job
            for both in data
            for job in submit_all(ranks, [halves(r, n * 4, 65536) for r in range(2)], both, both)
        ]
        assert [j.wait(DEADLINE) for j in jobs] == [1] * 8
        for k, both in enumerate(data):
            assert all((a == 2 * k + 1).all() for a in both)


def test_addresses_count_as_buffers_and_short_or_read_only_ones_are_refused() -> None:
    with ranks_of(2) as ranks:
        program = exchange_eager(0, 64)
        with pytest.raises(ValueError, match="the program needs 64 bytes, the buffer has 32"):
            ranks[0].runner.submit(ranks[0].gid, program, bytearray(32), bytearray(64))
        with pytest.raises(ValueError, match="read-only"):
            ranks[0].runner.submit(ranks[0].gid, program, bytearray(64), b"\0" * 64)
        with pytest.raises(ValueError, match="not contiguous"):
            ranks[0].runner.submit(ranks[0].gid, program, np.zeros((64, 2), np.float32)[:, 0], bytearray(64))
        with pytest.raises(OSError, match="no such group"):
            ranks[0].runner.submit(999, program, bytearray(64), bytearray(64))
        ins, outs = _inputs(16), [np.zeros(16, np.float32) for _ in range(2)]
        raw = [[(int(a.ctypes.data), a.nbytes) for a in arrays] for arrays in (ins, outs)]
        jobs = submit_all(ranks, [exchange_eager(r, 64) for r in range(2)], *raw)
        assert [j.wait(DEADLINE) for j in jobs] == [1, 1]
        assert (outs[1] == ins[0] + ins[1]).all()


def test_programs_that_make_no_sense_are_refused_with_the_step() -> None:
    with pytest.raises(ValueError, match="step 0: there is no such peer"):
        CollProgram(F32, 0, 2, 0, [(SEND, 2, INPUT, 0, OUTPUT, 0, 4, EAGER, ())])
    with pytest.raises(ValueError, match="step 1: it depends on itself or a later step"):
        CollProgram(U8, 0, 2, 0, [(COPY, 0, 0, 0, 1, 0, 4, 0, ()), (COPY, 0, 0, 0, 1, 0, 4, 0, (1,))])


def test_buffers_live_until_their_job_is_over_and_no_longer() -> None:
    class Memory(np.ndarray):  # type: ignore[misc]
        pass

    with ranks_of(2) as ranks:
        mine = np.zeros(16, np.float32).view(Memory)
        gone = weakref.ref(mine)
        job = ranks[0].runner.submit(ranks[0].gid, exchange_eager(0, 64), mine, mine)
        del mine
        gc.collect()
        assert gone() is not None
        assert job.status() == 0
        other = np.ones(16, np.float32)
        assert ranks[1].runner.submit(ranks[1].gid, exchange_eager(1, 64), other, other).wait(DEADLINE) == 1
        assert job.wait(DEADLINE) == 1
        gc.collect()
        assert gone() is None


def test_a_job_nobody_waits_for_is_announced_by_the_descriptor() -> None:
    with ranks_of(2) as ranks:
        ins, outs = _inputs(16), [np.zeros(16, np.float32) for _ in range(2)]
        first = ranks[0].runner.submit(ranks[0].gid, exchange_eager(0, 64), ins[0], outs[0])
        assert first.watch()
        assert select.select([ranks[0].runner.event_fd()], [], [], 0)[0] == []
        ranks[1].runner.submit(ranks[1].gid, exchange_eager(1, 64), ins[1], outs[1])
        assert select.select([ranks[0].runner.event_fd()], [], [], 20)[0] != []
        assert ranks[0].runner.take_finished() == [first.id]
        assert first.done()
        assert not first.watch()
        assert ranks[0].runner.take_finished() == []


def test_waiting_gives_up_in_time_and_says_who_is_missing() -> None:
    with ranks_of(2) as ranks:
        a = np.zeros(16, np.float32)
        job = ranks[0].runner.submit(ranks[0].gid, exchange_eager(0, 64), a, a)
        began = time.monotonic()
        assert job.wait(NS // 20) == 0
        assert time.monotonic() - began >= 0.05
        assert job.waiting_for() == [1]
        assert job.progress() == (2, 3)
        ranks[0].runner.abort(ranks[0].gid, "no more")
        assert job.wait(DEADLINE) == 3
        assert job.failure()["reason"] == "no more"
        with pytest.raises(OSError, match="failed or was aborted") as refused:
            ranks[0].runner.submit(ranks[0].gid, exchange_eager(0, 64), a, a)
        assert refused.value.errno == errno.ECANCELED


def test_threads_wait_side_by_side_and_abort_wakes_all_of_them() -> None:
    with ranks_of(2) as ranks:
        a = np.zeros(16, np.float32)
        jobs = [ranks[0].runner.submit(ranks[0].gid, exchange_eager(0, 64), a, a) for _ in range(3)]
        results: list[int] = []
        threads = [threading.Thread(target=lambda j=j: results.append(j.wait(-1))) for j in jobs]
        for t in threads:
            t.start()
        time.sleep(0.05)
        ranks[0].runner.abort(ranks[0].gid, "stop")
        for t in threads:
            t.join(20)
        assert results == [3, 3, 3]


def test_different_programs_are_told_apart_by_what_both_expected() -> None:
    with ranks_of(2) as ranks:
        a = [np.zeros(16, np.float32) for _ in range(2)]
        programs = [exchange_eager(0, 64, prints=[0, 7]), exchange_eager(1, 64, prints=[9, 0])]
        jobs = submit_all(ranks, programs, a, a)
        assert [j.wait(DEADLINE) for j in jobs] == [2, 2]
        failure = jobs[0].failure()
        assert (failure["status"], failure["peer"], failure["ours"], failure["theirs"]) == (
            "mismatch",
            1,
            7,
            9,
        )


def test_a_silent_peer_fails_the_job_by_name() -> None:
    with ranks_of(2, hold_s=0.3) as ranks:
        ranks[1].driver.add_rule({"down": True})
        a = np.zeros(1 << 16, np.float32)
        job = ranks[0].runner.submit(ranks[0].gid, exchange_eager(0, 16384), a, a)
        assert job.wait(DEADLINE) == 2
        assert job.failure()["status"] == "retry_exceeded"
        assert job.failure()["peer"] == 1


def test_closing_driver_or_runner_ends_what_runs() -> None:
    for close_driver in (True, False):
        with ranks_of(2) as ranks:
            a = np.zeros(16, np.float32)
            job = ranks[0].runner.submit(ranks[0].gid, exchange_eager(0, 64), a, a)
            (ranks[0].driver if close_driver else ranks[0].runner).close()
            assert job.wait(DEADLINE) == 2
            assert job.failure()["status"] == "closed"


def test_one_runner_a_driver() -> None:
    driver = NetDriver({"seed": 1, "planes": [{"address": "127.0.0.1", "udp_port": 0}]})
    try:
        runner = CollRunner(driver)
        with pytest.raises(OSError, match="runs collectives already") as refused:
            CollRunner(driver)
        assert refused.value.errno == errno.EBUSY
        runner.close()
        runner.close()
        with pytest.raises(OSError, match="closed"):
            runner.stats()
    finally:
        driver.close()


def test_a_forked_child_is_refused_and_harms_nobody() -> None:
    """B36."""
    with ranks_of(2) as ranks:
        ins, outs = _inputs(16), [np.zeros(16, np.float32) for _ in range(2)]
        job = ranks[0].runner.submit(ranks[0].gid, exchange_eager(0, 64), ins[0], outs[0])
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                job.wait(NS)
            except OSError as e:
                status = 0 if e.errno == errno.ECHILD else 2
            os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        other = ranks[1].runner.submit(ranks[1].gid, exchange_eager(1, 64), ins[1], outs[1])
        assert [job.wait(DEADLINE), other.wait(DEADLINE)] == [1, 1]
        assert (outs[0] == ins[0] + ins[1]).all()


def test_loss_on_both_planes_changes_nothing_but_the_time() -> None:
    n = 1 << 16
    with ranks_of(2) as ranks:
        for r in ranks:
            r.driver.add_rule({"drop_ppm": 20_000, "reorder_ppm": 50_000, "reorder_delay_ns": 300_000})
        both = [np.full(n, r + 1, np.float32) for r in range(2)]
        jobs = submit_all(ranks, [halves(r, n * 4, 16384) for r in range(2)], both, both)
        assert [j.wait(DEADLINE) for j in jobs] == [1, 1]
        assert all((a == 3).all() for a in both)


def test_ranks_of_one_host_read_long_messages_from_memory() -> None:
    n = 1 << 18
    with ranks_of(2, local=True) as ranks:
        for k in range(5):
            both = [np.full(n, r + k, np.float32) for r in range(2)]
            jobs = submit_all(ranks, [halves(r, n * 4, 65536) for r in range(2)], both, both)
            assert [j.wait(DEADLINE) for j in jobs] == [1, 1]
            assert all((a == 2 * k + 1).all() for a in both)
        for r in ranks:
            assert r.runner.stats()["local_bytes"] >= 4 * n * 4
            assert r.runner.stats()["local_refused"] == 0


def test_a_number_that_is_no_process_of_ours_leaves_the_network() -> None:
    with ranks_of(2) as ranks:
        runner, driver = ranks[0].runner, ranks[0].driver
        near = ranks[1].runner.open_lane_memory()
        qpn = driver.create_qp(
            {"pd": runner.pd, "send_cq": runner.cq, "recv_cq": runner.cq, "max_recv_wr": 256}
        )
        driver.modify_qp(qpn, {"state": 1, "access_flags": 3, "ev_count": 8})
        lane = runner.add_lane(qpn, runner.open_lane_memory()["memory"], near | {"local_pid": 2**22 + 1})
        assert runner.stats()["local_refused"] == 1
        runner.close_lane(lane)
        driver.destroy_qp(qpn)


def test_arithmetic_alone() -> None:
    acc, src = np.arange(9, dtype=np.int32), np.arange(9, dtype=np.int32)
    coll_reduce(I32, 1, acc, src)
    assert acc.tolist() == [i * i for i in range(9)]
    out = np.zeros(3, np.float32)
    coll_scale(F32, out, np.array([3, 6, 7], np.float32), 3.0, True)
    assert out.tolist() == [1.0, 2.0, float(np.float32(7) / np.float32(3))]
    with pytest.raises(ValueError, match="no meaning"):
        coll_reduce(F32, 6, out, out)
    with pytest.raises(ValueError, match="differ in length"):
        coll_reduce(F32, 0, out, bytearray(8))


def test_a_receive_without_its_message_is_named_and_nothing_spins() -> None:
    """B58: a job that waits costs no processor time."""
    with ranks_of(2) as ranks:
        out = bytearray(4)
        program = CollProgram(U8, 0, 2, 0, [(RECV, 1, INPUT, 0, OUTPUT, 0, 4, EAGER, ())])
        job = ranks[0].runner.submit(ranks[0].gid, program, None, out)
        before = time.process_time()
        assert job.wait(NS // 2) == 0
        assert time.process_time() - before < 0.25, "spinning takes 0.5 s or more"
        assert job.waiting_for() == [1]
