"""What came of a simulation: figures, files, cost.

`Result` puts a run's outcome into words and numbers, `save` writes them, `load` reads them back for figures and tables.
"""

from __future__ import annotations

from softmrc.sim.result.cost import Rates
from softmrc.sim.result.files import load, save, to_json
from softmrc.sim.result.model import FORMAT, Result
from softmrc.sim.result.outdir import prepare

__all__ = ["FORMAT", "Rates", "Result", "load", "prepare", "save", "to_json"]
