"""Measurements between two hosts, with the options and the habits of `ib_write_bw` and `ib_write_lat`.

The traffic itself runs natively (core/perf); here the two ends agree on it and put figures together.
"""

from __future__ import annotations

from softmrc.perf.client import measure
from softmrc.perf.local import Local
from softmrc.perf.plan import SWEEP, Plan, Row, region_for
from softmrc.perf.server import Server

__all__ = ["SWEEP", "Local", "Plan", "Row", "Server", "measure", "region_for"]
