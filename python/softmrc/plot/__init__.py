"""Figures of results: `draw` makes one kind, `kinds` says which a result has data for."""

from __future__ import annotations

from softmrc.plot.draw import KINDS, draw, kinds
from softmrc.plot.source import Source

__all__ = ["KINDS", "Source", "draw", "kinds"]
