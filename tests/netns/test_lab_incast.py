"""Many hosts to one: packets without room become headers, which are answered; beside it the same without trimming."""

from __future__ import annotations

import os

import pytest

from softmrc.lab.bpf_build import why_no_bpf
from softmrc.lab.incast import Incast, Outcome, run_incast

PLAN = Incast(
    senders=4, planes=2, rate_bps=50_000_000, seconds=2.0, warm=1.0, name=f"i{os.getpid()}", switch="kernel"
)


def run(trimming: bool) -> Outcome:
    return run_incast(PLAN, trimming, lambda _: None)


def test_with_trimming_hardly_anything_is_lost_and_no_path_is_blamed() -> None:
    if why_no_bpf():
        pytest.skip(f"needs clang and BPF: {why_no_bpf()}")
    found = run(True)
    assert found.trimming == ""
    assert found.trimmed > 500, "nothing was congested"
    assert {what: holds for what, holds in found.checks().items() if not holds} == {}, found


def test_without_trimming_the_same_is_dropped_and_paths_are_blamed() -> None:
    found = run(False)
    assert found.trimming == "trimming is off"
    assert (found.trimmed, found.headers, found.nacks) == (0, 0, 0)
    assert found.dropped > 100
    assert found.assumed_bad > 0
    assert found.errors == []
