"""Two engines in virtual time under random failures: long runs, made of episodes, and replay."""

from __future__ import annotations

from softmrc.chaos.episode import MAX_QP_BYTES, Episode
from softmrc.chaos.episodes import EPISODE_PACKETS, Progress, replay, run
from softmrc.chaos.report import ChaosResult, Failure

__all__ = [
    "EPISODE_PACKETS",
    "MAX_QP_BYTES",
    "ChaosResult",
    "Episode",
    "Failure",
    "Progress",
    "replay",
    "run",
]
