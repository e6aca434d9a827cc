"""The exporter over HTTP: addresses, scrapers good and bad."""

from __future__ import annotations

import socket
import sys
import urllib.error
import urllib.request

import pytest

pytest.importorskip("prometheus_client", reason="metrics need the extra 'metrics'")

from softmrc.errors import UsageError, VerbsError
from softmrc.metrics import server as module
from softmrc.metrics.server import MAX_SCRAPERS, parse_metrics_address, serve_metrics


def get(url, **headers):
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=10) as answer:
        return answer.status, answer.headers["Content-Type"], answer.read().decode()


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("9400", ("127.0.0.1", 9400)),
        (":9400", ("127.0.0.1", 9400)),
        ("10.0.0.1:0", ("10.0.0.1", 0)),
        ("[::1]:9400", ("::1", 9400)),
        ("localhost:1", ("localhost", 1)),
    ],
)
def test_addresses(text, address):
    assert parse_metrics_address(text) == address


@pytest.mark.parametrize("text", ["", "x", "1.2.3.4", "1.2.3.4:", ":70000", "::1:9400", "1:2:3", "host:-1"])
def test_what_is_no_address(text):
    with pytest.raises(UsageError, match="metrics address"):
        parse_metrics_address(text)


def test_scrape(source):
    with serve_metrics("[::1]:0", [source]) as running:
        status, kind, text = get(running.url)
        assert (status, kind.split(";")[0]) == (200, "text/plain")
        assert 'softmrc_queue_pairs{endpoint="a"} 2.0' in text
        _, kind, text = get(running.url, Accept="application/openmetrics-text")
        assert kind.startswith("application/openmetrics-text")
        assert text.endswith("# EOF\n")
        with pytest.raises(urllib.error.HTTPError, match="404"):
            get(running.url.replace("/metrics", "/secret"))


def test_scrapes_in_quick_succession_share_a_reading(source, monkeypatch):
    monkeypatch.setattr(module, "FRESH_SECONDS", 60.0)
    reads = []
    original = source.read
    monkeypatch.setattr(source, "read", lambda: reads.append(1) or original())
    with serve_metrics("0", [source]) as running:
        assert get(running.url)[2] == get(running.url)[2]
    assert len(reads) == 1


def test_idle_and_broken_scrapers_shut_nobody_out(source, monkeypatch):
    monkeypatch.setattr(module._Handler, "timeout", 0.5)
    with serve_metrics("0", [source]) as running:
        idle = [socket.create_connection(running.address) for _ in range(MAX_SCRAPERS)]
        with socket.create_connection(running.address) as extra:
            extra.settimeout(10)
            assert extra.recv(10) == b""  # turned away at once
        for sock in idle:
            sock.settimeout(10)
            assert sock.recv(10) == b""  # given up after the time-out
            sock.close()
        with socket.create_connection(running.address) as rude:
            rude.sendall(b"\x00\xff" * 100 + b"\r\n\r\n")
            rude.settimeout(10)
            assert b"400" in rude.recv(200)
        assert get(running.url)[0] == 200


def test_a_closed_device_shows_nothing_and_hurts_nothing(pair, source):
    with serve_metrics("0", [source]) as running:
        pair[0].close()
        assert get(running.url)[2] == ""


def test_an_address_in_use_is_named(source):
    with serve_metrics("0", [source]) as running:
        host, port = running.address
        with pytest.raises(VerbsError, match=f"serve metrics on {host}:{port}"):
            serve_metrics(f"{host}:{port}", [source])


def test_without_the_package_it_says_what_to_install(source, monkeypatch):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(UsageError, match=r"pip install 'softmrc\[metrics\]'"):
        serve_metrics("0", [source])
