"""Serves metrics over HTTP to Prometheus: few scrapers at a time, none of which can hold the engine up."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from softmrc.errors import UsageError, VerbsError
from softmrc.metrics.source import Reading, Source
from softmrc.text import host_port

__all__ = ["MetricsServer", "parse_metrics_address", "serve_metrics"]

MAX_SCRAPERS = 8
"""Requests served at a time; more are turned away."""
REQUEST_SECONDS = 5.0
"""For a request to arrive and its answer to leave."""
FRESH_SECONDS = 0.2
"""Scrapes within this time share one reading."""


def parse_metrics_address(text: str) -> tuple[str, int]:
    """Read "PORT", "ADDR:PORT" or "[v6]:PORT"; without an address it is the loopback one.

    Raises:
        UsageError: neither of these.
    """
    host, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise UsageError(f"metrics address {text!r}: write PORT, ADDR:PORT or [IPv6 address]:PORT")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if ":" in bare and bare == host:
        raise UsageError(f"metrics address {text!r}: write [IPv6 address]:PORT")
    return bare or "127.0.0.1", int(port)


class _Cache:
    """The newest readings; one thread reads, the others wait for it."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = tuple(sources)
        self._lock = threading.Lock()
        self._readings: list[Reading] = []
        self._until = 0.0

    def readings(self) -> list[Reading]:
        with self._lock:
            if time.monotonic() >= self._until:
                self._readings = [r for source in self._sources if (r := source.read()) is not None]
                self._until = time.monotonic() + FRESH_SECONDS
            return self._readings

    def collect(self) -> Any:
        """Return the metric families; the name is the registry's."""
        from softmrc.metrics.families import families

        return families(self.readings())


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = REQUEST_SECONDS
    server_version = "softmrc"
    sys_version = ""

    def do_GET(self) -> None:
        from prometheus_client.exposition import choose_encoder

        if self.path.partition("?")[0] not in ("/", "/metrics"):
            self.send_error(404, "metrics are at /metrics")
            return
        encode, content_type = choose_encoder(self.headers.get("Accept", ""))
        body = encode(self.server.registry)
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: scrapes are no news."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True

    def __init__(self, host: str, port: int, registry: Any) -> None:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        self.address_family = family
        self.registry = registry
        self._room = threading.Semaphore(MAX_SCRAPERS)
        super().__init__(address, _Handler)  # type: ignore[arg-type]

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a scraper that goes away or talks nonsense hurts only itself."""


class MetricsServer:
    """A running exporter; a context manager."""

    def __init__(self, server: _Server, sources: Sequence[Source]) -> None:
        """Use `serve_metrics`."""
        self._server, self._sources = server, tuple(sources)
        self._thread = threading.Thread(target=server.serve_forever, args=(0.2,), name="metrics", daemon=True)
        self._thread.start()

    @property
    def address(self) -> tuple[str, int]:
        """Address and TCP port it listens on."""
        host, port = self._server.server_address[:2]
        return str(host), int(port)

    @property
    def url(self) -> str:
        """Where Prometheus finds the metrics."""
        host, port = self.address
        return f"http://{host_port(host, port)}/metrics"

    def close(self) -> None:
        """Stop serving. The sources stay. Idempotent."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> MetricsServer:
        """Enter: nothing to do."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Close."""
        self.close()


def serve_metrics(address: str, sources: Sequence[Source]) -> MetricsServer:
    """Serve the metrics of some devices until closed.

    Args:
        address: "PORT", "ADDR:PORT" or "[v6]:PORT"; port 0: a free one. Without an address only this host can
            ask, and whoever can reach the address may: there is no password.
        sources: what is shown.

    Raises:
        UsageError: the package prometheus-client is missing, or a bad address.
        VerbsError: the address cannot be used; `errno` says why.
    """
    host, port = parse_metrics_address(address)
    try:
        from prometheus_client import CollectorRegistry
    except ImportError:
        raise UsageError("metrics need prometheus-client: pip install 'softmrc[metrics]'") from None
    registry = CollectorRegistry()
    registry.register(_Cache(sources))
    try:
        server = _Server(host, port, registry)
    except socket.gaierror as error:
        raise UsageError(f"metrics address {address!r}: {error.strerror}") from None
    except OSError as error:
        raise VerbsError(error.errno or 5, f"serve metrics on {address}") from None
    return MetricsServer(server, sources)
