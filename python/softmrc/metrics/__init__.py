"""What an endpoint shows of itself while it runs: Prometheus metrics, an event log, a qlog-style trace.

Decides names, units and how much is shown; leaves counting to the engine and the driver. Nothing here is called
by the I/O thread.
"""

from __future__ import annotations

from softmrc.metrics.events import EventLog
from softmrc.metrics.qlog import QlogTrace
from softmrc.metrics.server import MetricsServer, serve_metrics
from softmrc.metrics.source import QpName, Reading, Source

__all__ = ["EventLog", "MetricsServer", "QlogTrace", "QpName", "Reading", "Source", "serve_metrics"]
