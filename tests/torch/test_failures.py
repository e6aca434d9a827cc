"""Failures of ranks: every other rank raises within the timeout and names the same rank; nothing hangs."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.ports import free_port
from tests.torch.ranks import Ranks

_TIMEOUT = 4.0
# A busy machine may look at a deadline late; a call that hangs is seen at the 40 s that `results` waits.
_SLACK = 8.0


def _all_name(rank: int, outcomes: Iterable[dict[str, Any]]) -> None:
    """All said the same, and named this rank and no other."""
    texts = {outcome["text"] for outcome in outcomes}
    assert len(texts) == 1, texts
    assert set(re.findall(r"\brank (\d+)", texts.pop())) == {str(rank)}


def _wait_until_begun(directory: Path, ranks: Iterable[int]) -> None:
    from tests.torch.failure_cases import began_file

    waited = {rank: began_file(str(directory), rank) for rank in ranks}
    end = time.monotonic() + 30
    while missing := [rank for rank, file in waited.items() if not file.exists()]:
        assert time.monotonic() < end, f"ranks {missing} have not begun"
        time.sleep(0.01)


@pytest.mark.parametrize(("size", "victim", "count"), [(3, 1, 64), (4, 0, 400_000), (2, 1, 64)])
def test_a_killed_rank_is_named_by_all(
    start: Callable[..., Ranks], tmp_path: Path, size: int, victim: int, count: int
) -> None:
    from tests.torch import failure_cases

    ranks = start(size, timeout=_TIMEOUT)
    others = [rank for rank in range(size) if rank != victim]
    ranks.cast(failure_cases.reduce_until_error, count, str(tmp_path))
    _wait_until_begun(tmp_path, range(size))
    time.sleep(0.1)
    ranks.signal(victim, signal.SIGKILL)
    said = ranks.results(ranks=others)
    _all_name(victim, said)
    for each in said:
        assert each["seconds"] < _TIMEOUT + _SLACK
        assert each["calls"] > 0
        assert "plane" in each["text"]
        assert "heard" in each["text"]
    ranks.cast(failure_cases.leave, ranks=others)
    assert max(ranks.results(ranks=others)) < _TIMEOUT + _SLACK


def test_field_b08_a_stopped_rank_is_named_by_all(start: Callable[..., Ranks]) -> None:
    """B08: ranks blame one another in a circle. 4 ranks, rank 2 stopped, all call barrier."""
    from tests.torch import failure_cases

    ranks = start(4, timeout=_TIMEOUT)
    ranks.signal(2, signal.SIGSTOP)
    others = [0, 1, 3]
    ranks.cast(failure_cases.barrier, ranks=others)
    said = ranks.results(ranks=others)
    _all_name(2, said)
    assert max(each["seconds"] for each in said) < _TIMEOUT + _SLACK
    ranks.cast(failure_cases.leave, ranks=others)
    assert max(ranks.results(ranks=others)) < _TIMEOUT + _SLACK


def test_a_pause_within_the_timeout_is_no_failure(start: Callable[..., Ranks]) -> None:
    from tests.torch import failure_cases

    ranks = start(3, timeout=15)
    ranks.cast(failure_cases.reduce_many, 600)
    for _ in range(2):
        time.sleep(0.1)
        ranks.signal(1, signal.SIGSTOP)
        time.sleep(1.0)
        ranks.signal(1, signal.SIGCONT)
    assert ranks.results() == [1800.0] * 3
    assert ranks.close() == [0] * 3


def test_ctrl_c_ends_a_call_that_waits(start: Callable[..., Ranks], tmp_path: Path) -> None:
    from tests.torch import failure_cases

    ranks = start(2, timeout=30)
    ranks.cast(failure_cases.barrier_begun, str(tmp_path), ranks=[0])
    _wait_until_begun(tmp_path, [0])
    time.sleep(0.3)
    ranks.signal(0, signal.SIGINT)
    outcome = ranks.outcomes(timeout=15, ranks=[0])[0]  # the group waits for 30 s
    assert outcome.kind == "KeyboardInterrupt"


def test_field_b07_a_rank_that_exits_before_the_first_collective_of_a_subgroup(
    start: Callable[..., Ranks],
) -> None:
    """B07: a rank dies before the first collective of a subgroup, and survivors ignore its timeout of 2 s."""
    from tests.torch import failure_cases

    ranks = start(3, timeout=30)
    ranks.cast(failure_cases.one_exits_before, 0, 2.0)
    said = ranks.results(ranks=[1, 2])
    _all_name(0, said)
    # Its own 2 s, not the 30 s of the group that all belong to.
    assert max(each["seconds"] for each in said) < 2 + _SLACK


@pytest.mark.parametrize("count", [1, 500_000])
def test_field_b06_what_was_sent_before_exit_arrives(start: Callable[..., Ranks], count: int) -> None:
    """B06: a peer exits right after isend, the receiver loses the data and dies."""
    from tests.torch import failure_cases

    ranks = start(2)
    ranks.cast(failure_cases.send_and_exit, count)
    assert ranks.results(ranks=[1]) == [7.0 * count]


def test_field_b38_destroy_returns_when_one_rank_raised(start: Callable[..., Ranks]) -> None:
    """B38: one rank raises in its loop, the others wait in all_reduce, all destroy in `finally`."""
    from tests.torch import failure_cases

    ranks = start(3, timeout=_TIMEOUT)
    said = ranks.call(failure_cases.raises_in_loop, 2)
    assert "nan" in said[2]["text"]
    _all_name(2, said[:2])
    assert max(each["destroy"] for each in said) < _TIMEOUT + _SLACK
    assert ranks.close() == [0, 0, 0]


def test_field_b38_destroy_from_a_second_thread(start: Callable[..., Ranks]) -> None:
    """B38: the group is destroyed by another thread than the one that waits."""
    from tests.torch import failure_cases

    ranks = start(3, timeout=20)
    said = ranks.call(failure_cases.destroyed_by_thread)
    for each in said[:2]:
        assert each["text"] != ""
        assert each["waited"] < 10  # not the 20 s of the group
        assert not [name for name in each["threads"] if "softmrc" in name or "mrc" in name]
    assert ranks.close() == [0, 0, 0]


def test_field_b38_abort_ends_what_waits(start: Callable[..., Ranks]) -> None:
    from tests.torch import failure_cases

    ranks = start(3, timeout=20)
    said = ranks.call(failure_cases.aborted)
    assert all(said)
    assert ranks.close() == [0, 0, 0]


@pytest.mark.parametrize(("absent", "everyone"), [([1], False), ([1, 3], True)])
def test_monitored_barrier_names_who_is_missing(
    start: Callable[..., Ranks], absent: list[int], everyone: bool
) -> None:
    from tests.torch import failure_cases

    ranks = start(4, timeout=20)
    said = ranks.call(failure_cases.monitored, absent, everyone)
    assert all(str(rank) in said[0]["text"] for rank in absent)
    assert "monitored_barrier" in said[0]["text"]
    assert all(each["seconds"] < 1 + _SLACK for rank, each in enumerate(said) if rank not in absent)


def test_a_rank_may_come_late(start: Callable[..., Ranks], tmp_path: Path) -> None:
    from tests.torch import failure_cases

    ranks = start(3, join=False)
    assert ranks.call(failure_cases.join_late, str(tmp_path / "store"), 1.0) == [9.0, 9.0, 9.0]
    assert ranks.close() == [0, 0, 0]


def test_a_rank_that_never_comes_is_named(start: Callable[..., Ranks], tmp_path: Path) -> None:
    from tests.torch import failure_cases

    ranks = start(3, join=False)
    said = ranks.call(failure_cases.join_without_last, str(tmp_path / "store"))
    _all_name(2, said[:2])
    assert max(each["seconds"] for each in said) < 6 + _SLACK


@pytest.mark.timeout(120)
def test_field_b37_restart_right_after_a_crash(start: Callable[..., Ranks], tmp_path: Path) -> None:
    """B37: kill all ranks, start again at once at the same rendezvous port, again and again."""
    from tests.torch import failure_cases

    meeting = f"tcp://127.0.0.1:{free_port()}"
    for _ in range(6):
        ranks = start(2, meeting=meeting)
        ranks.cast(failure_cases.reduce_until_error, 5000, str(tmp_path))
        time.sleep(0.2)
        ranks.kill()
    last = start(2, meeting=meeting)
    last.call(failure_cases.barrier)
    assert last.close() == [0, 0]
