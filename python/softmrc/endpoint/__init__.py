"""The simple level.

An `Endpoint` with several planes, connections over it, and writes that are awaited or waited for.

Everything here works with and without asyncio. Decides connection set-up, message splitting, back-pressure
and orderly closing; leaves queue pairs and memory keys to `softmrc.verbs` and every protocol decision to the
engine.
"""

from __future__ import annotations

from softmrc.endpoint.address import Plane
from softmrc.endpoint.connection import Connection
from softmrc.endpoint.endpoint import Endpoint
from softmrc.endpoint.exchange import Exchange
from softmrc.endpoint.knobs import KnobArgs, Knobs
from softmrc.endpoint.listener import Listener
from softmrc.endpoint.region import Region, RemoteWindow
from softmrc.endpoint.stats import ConnectionStats, EndpointStats, Notification, PathStats, PlaneStatus, Route
from softmrc.endpoint.transfer import Transfer

__all__ = [
    "Connection",
    "ConnectionStats",
    "Endpoint",
    "EndpointStats",
    "Exchange",
    "KnobArgs",
    "Knobs",
    "Listener",
    "Notification",
    "PathStats",
    "Plane",
    "PlaneStatus",
    "Region",
    "RemoteWindow",
    "Route",
    "Transfer",
]
