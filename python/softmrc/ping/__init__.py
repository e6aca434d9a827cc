"""Round trips of every path between two endpoints, measured with EV probes (reference 9.1).

Decides pace, patience and what counts as dead; leaves set-up to `softmrc.endpoint` and probes to the engine.
"""

from __future__ import annotations

from softmrc.ping.paths import Path, Summary
from softmrc.ping.pinger import MAX_TIMEOUT, Pinger, Target

__all__ = ["MAX_TIMEOUT", "Path", "Pinger", "Summary", "Target"]
