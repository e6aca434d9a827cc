"""One independent run of two engines, and the command that repeats it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from softmrc import _core
from softmrc.errors import UsageError

__all__ = ["MAX_QP_BYTES", "Episode"]

MAX_QP_BYTES: int = _core.CHAOS_MAX_QP_BYTES
MAX_PACKETS = 10**12
"""Of a run: months of computing, and few enough episodes that their list fits in memory."""


@dataclass(frozen=True)
class Episode:
    """What determines an episode entirely.

    Attributes:
        seed: Seed of the run it belongs to, 0 to 2^64 - 1.
        number: Its place in the run, from 0.
        packets: Packets handed to the network, 1 to `MAX_PACKETS`.
        without: Indices of actions (failures, changes) left out, ascending.
        actions: Only this many actions, as if the rest were in `without`; None is all.
        max_qp_bytes: State of one QP, both halves, above which memory counts as unbounded.

    Raises:
        UsageError: A value is out of range.
    """

    seed: int
    number: int
    packets: int
    without: tuple[int, ...] = ()
    actions: int | None = None
    max_qp_bytes: int = MAX_QP_BYTES

    def __post_init__(self) -> None:
        if not 0 <= self.seed < 1 << 64:
            raise UsageError(f"seed must be 0 to 2^64 - 1, not {self.seed}")
        if not 1 <= self.packets <= MAX_PACKETS:
            raise UsageError(f"packets must be 1 to {MAX_PACKETS}, not {self.packets}")
        if not 0 <= self.number <= MAX_PACKETS:
            raise UsageError(f"episode must be 0 to {MAX_PACKETS}, not {self.number}")
        if any(not 0 <= n < 1 << 32 for n in (*self.without, self.actions or 0)):
            raise UsageError("actions are numbers from 0 to 2^32 - 1")
        if self.max_qp_bytes < 0:
            raise UsageError(f"max_qp_bytes must not be negative, but is {self.max_qp_bytes}")

    @property
    def command(self) -> str:
        """The line that runs it again."""
        line = f"softmrc chaos --seed {self.seed} --episode {self.number} --packets {self.packets}"
        if self.actions is not None:
            line += f" --actions {self.actions}"
        if self.max_qp_bytes != MAX_QP_BYTES:
            line += f" --max-qp-bytes {self.max_qp_bytes}"
        return f"{line} --without {','.join(map(str, self.without))}" if self.without else line

    def run(self) -> dict[str, Any]:
        """Run it on this thread, without the GIL; returns the engine's report."""
        report: dict[str, Any] = _core.run_chaos(*self._arguments())
        return report

    def shrink(self, budget: int) -> tuple[Episode, dict[str, Any]]:
        """Find out which actions a violation needs, in at most `budget` reruns."""
        without, actions, report = _core.shrink_chaos(*self._arguments(), budget)
        return replace(self, without=tuple(sorted(without)), actions=actions), report

    def _arguments(self) -> tuple[int, int, list[int], int | None, int]:
        engine_seed = _core.chaos_episode_seed(self.seed, self.number)
        return engine_seed, self.packets, list(self.without), self.actions, self.max_qp_bytes
