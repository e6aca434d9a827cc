"""Splits a run into episodes, spreads them over the cores and merges what they report.

An episode is a whole run of its own: fabric, traffic and failures drawn from a seed that is derived from the
run's seed and the episode's number. The number of threads changes nothing but the time it takes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

from softmrc.chaos.episode import MAX_QP_BYTES, Episode
from softmrc.chaos.report import ChaosResult, Failure
from softmrc.errors import UsageError

__all__ = ["EPISODE_PACKETS", "Progress", "replay", "run"]

EPISODE_PACKETS = 250_000

# Called after each episode with the packets done so far and the violations found so far.
Progress = Callable[[int, int], None]


def run(
    seed: int = 1,
    packets: int = 1_000_000,
    jobs: int | None = None,
    progress: Progress | None = None,
    *,
    max_qp_bytes: int = MAX_QP_BYTES,
    episode_packets: int = EPISODE_PACKETS,
    shrink_budget: int = 60,
) -> ChaosResult:
    """Run `packets` packets of chaos.

    Args:
        seed: 0 to 2^64 - 1; everything follows from it.
        packets: 1 to `MAX_PACKETS`.
        jobs: Threads; None is one a core.
        progress: Told after each episode.
        max_qp_bytes: State of one QP, both halves, above which memory counts as unbounded.
        episode_packets: Length of an episode; part of what determines the run.
        shrink_budget: Reruns of the first failing episode to find out which actions it needs; 0 is none.

    Returns:
        The merged report; `failures` holds the first failing episode.

    Raises:
        UsageError: An argument is out of range.
    """
    if jobs is not None and jobs < 1:
        raise UsageError(f"jobs must be at least 1, not {jobs}")
    if episode_packets < 1:
        raise UsageError(f"an episode has at least 1 packet, not {episode_packets}")
    Episode(seed, 0, packets)  # range of the arguments
    starts = range(0, packets, episode_packets)
    episodes = [
        Episode(seed, n, min(episode_packets, packets - at), max_qp_bytes=max_qp_bytes)
        for n, at in enumerate(starts)
    ]
    reports = _all(episodes, jobs or len(os.sched_getaffinity(0)), progress)
    result = ChaosResult.merge(seed, reports)
    failing = next((n for n, r in enumerate(reports) if r["violations"]), None)
    if failing is not None:
        episode, report = episodes[failing], reports[failing]
        if shrink_budget > 0:
            episode, report = episode.shrink(shrink_budget)
        result.failures.append(Failure.of(episode, report))
    return result


def replay(episode: Episode) -> ChaosResult:
    """Run one episode again, without looking for a smaller one when it fails."""
    report = episode.run()
    result = ChaosResult.merge(episode.seed, [report])
    if report["violations"]:
        result.failures.append(Failure.of(episode, report))
    return result


def _all(episodes: Sequence[Episode], jobs: int, progress: Progress | None) -> list[dict[str, Any]]:
    reports: list[dict[str, Any]] = [{} for _ in episodes]
    done = violations = 0
    with ThreadPoolExecutor(max_workers=min(jobs, len(episodes)), thread_name_prefix="chaos") as pool:
        waiting = {pool.submit(episode.run): episode for episode in episodes}
        try:
            for future in as_completed(waiting):
                episode = waiting[future]
                reports[episode.number] = future.result()
                done += episode.packets
                violations += len(reports[episode.number]["violations"])
                if progress is not None:
                    progress(done, violations)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return reports
