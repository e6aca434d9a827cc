"""Comparisons with what else this machine can run: `softmrc bench transport`.

Decides what is measured against what, in which order, and what counts as met; leaves the traffic to
`softmrc perf`, `iperf3` and the yardsticks of `core/yard`, and the networks to `softmrc.netns`.
"""

from __future__ import annotations

from softmrc.bench.settings import Settings
from softmrc.bench.table import Outcome, Row, RowResult
from softmrc.bench.transport import ROWS, run_rows

__all__ = ["ROWS", "Outcome", "Row", "RowResult", "Settings", "run_rows"]
