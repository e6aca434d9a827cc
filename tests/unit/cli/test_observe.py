"""The options --metrics, --events and --qlog of a real transfer."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request

import pytest

pytest.importorskip("prometheus_client", reason="metrics need the extra 'metrics'")

COMMAND = [sys.executable, "-m", "softmrc.cli.app"]


def test_a_transfer_is_recorded_on_both_ends(tmp_path):
    (tmp_path / "f").write_bytes(bytes(3 << 20))
    recv = [
        *COMMAND,
        "recv",
        "--listen",
        "127.0.0.1",
        "--dir",
        tmp_path / "in",
        "--port",
        "0",
        "--token",
        "x",
    ]
    options = ["--once", "--json", "--metrics", "0", "--events", tmp_path / "received"]
    with subprocess.Popen(
        [*recv, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as other:
        url = other.stderr.readline().split()[-1]
        port = json.loads(other.stdout.readline())["port"]
        with urllib.request.urlopen(url, timeout=10) as answer:
            assert b"softmrc_plane_up" in answer.read()
        send = [*COMMAND, "send", tmp_path / "f", f"127.0.0.1:{port}", "--token", "x", "--json"]
        records = ["--events", tmp_path / "sent", "--qlog", tmp_path / "trace"]
        done = subprocess.run([*send, *records], capture_output=True, text=True, timeout=50)
        assert done.returncode == 0, done.stderr
        other.communicate(timeout=30)
        assert other.returncode == 0
    for name in ("received", "sent"):
        kinds = [json.loads(line)["kind"] for line in (tmp_path / name).read_text().splitlines()]
        assert (kinds[0], kinds[-1]) == ("start", "end")
    trace = [json.loads(r) for r in (tmp_path / "trace").read_text().split("\x1e")[1:]]
    sent = [r["data"]["data_packets_sent"] for r in trace if r.get("name") == "mrc:metrics_updated"]
    assert max(sent) >= (3 << 20) // 9984


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--metrics", "nonsense", "metrics address"),
        ("--events", "/nonexistent/log", "/nonexistent/log: No such file"),
        ("--qlog", "/nonexistent/q", "/nonexistent/q: No such file"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_received(tmp_path, option, value, words):
    args = ["recv", "--listen", "127.0.0.1", "--dir", tmp_path / "in", "--port", "0", option, value]
    done = subprocess.run([*COMMAND, *args], capture_output=True, text=True, timeout=30)
    assert done.returncode == 2
    assert words in done.stderr
