"""`softmrc perf` as a command: output, exit codes, interrupts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from softmrc.cli.app import app
from softmrc.cli.perf import _bytes
from softmrc.errors import PeerError, UsageError
from softmrc.perf import Plan

CLIENT = [sys.executable, "-m", "softmrc.cli.app", "perf"]


def client(server, *options):
    words = ["127.0.0.61", "--port", str(server.port), "--planes", "127.0.0.71,127.0.0.72", "--evs", "4"]
    return [*CLIENT, *words, *options]


def run(server, *options):
    return subprocess.run(client(server, *options), capture_output=True, text=True, check=False, timeout=50)


def test_one_size_as_json_is_the_row_itself_and_a_list_of_it(serve):
    done = run(serve(), "-s", "4k", "-n", "20", "-q", "2", "-t", "4", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["size"] == 4096
    assert found["bytes"] == 2 * 20 * 4096
    assert found["rows"] == [{k: v for k, v in found.items() if k != "rows"}]


def test_the_sweep_is_the_default(serve):
    done = run(serve(), "-n", "2", "-t", "2", "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert [r["size"] for r in rows] == [2**n for n in range(1, 24)]
    assert all(r["iters"] == 2 for r in rows)


def test_tables(serve):
    server = serve()
    done = run(server, "-s", "4k", "-n", "20", "--report-per-port")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("RDMA write: 1 QP")
    assert lines[1].split()[:2] == ["bytes", "iterations"]
    assert lines[2].split()[:2] == ["4096", "20"]
    assert sum(line.startswith("plane 1 EV ") for line in lines) == 4
    done = run(server, "--op", "lat", "-s", "8", "-n", "20")
    assert "there and back" in done.stdout
    assert done.stdout.splitlines()[2].split()[:2] == ["8", "20"]


ROW = {
    "size": 4096, "iters": 7, "both": False, "qps": 1, "depth": 4, "pmtu": 1408, "icrc": True, "icrc_off_asked": [],
    "peak_gbps": 2.0, "goodput_gbps": 1.0, "msg_rate_mps": 0.5, "cpu_s_per_gb": None, "partial": False,
    "per_plane": [], "per_ev": [],
    "rtx": 0, "local_rx_drops": 0, "assumed_bad": 0, "qp_errors": 0, "errors": 0, "tx_errors": 0, "bytes": 0,
    "cpu": {"process_s": 0.0, "peer_process_s": 0.0}, "jain": 1.0,
    "lat_us": dict.fromkeys(("min", "p50", "p99", "p999", "max"), 3.0), "one_way_us": {"p50": 1.5},
}  # fmt: skip


def pretend(monkeypatch, *steps):
    """Let a measurement yield rows, or end with an error; return what was printed by each row, and all of it."""
    printed, seen = [], []
    monkeypatch.setattr("softmrc.cli.perf.put", lambda text: printed.append(text))

    async def measure(*_, on_row, **__):
        rows = []
        for step in steps:
            if isinstance(step, Exception):
                raise step
            rows.append(step)
            on_row(step)
            seen.append(list(printed))
        return rows

    monkeypatch.setattr("softmrc.perf.measure", measure)
    return seen, printed


def test_rows_are_printed_as_they_come(monkeypatch):
    seen, printed = pretend(monkeypatch, ROW, {**ROW, "size": 8192})
    assert CliRunner().invoke(app, ["perf", "127.0.0.1"]).exit_code == 0
    assert [len(lines) for lines in seen] == [3, 4]
    assert seen[0][2].split()[:4] == ["4096", "7", "2.00", "1.00"]
    assert printed[3].split()[0] == "8192"
    assert "no retransmission" in printed[4]
    assert len(printed[1]) == len(printed[2]) == len(printed[3])


def test_a_server_that_leaves_keeps_what_there_is(monkeypatch):
    rows = ROW, {**ROW, "size": 8192, "partial": True}
    gone = PeerError("10.0.0.2:5: closed the connection during the measurement")
    _, printed = pretend(monkeypatch, *rows, gone)
    result = CliRunner().invoke(app, ["perf", "127.0.0.1"])
    assert result.exit_code == 3
    assert printed[3].endswith("(partial)")
    assert "during the measurement" in result.output
    pretend(monkeypatch, *rows, gone)
    result = CliRunner().invoke(app, ["perf", "127.0.0.1", "--json"])
    assert result.exit_code == 3
    found = json.loads(result.stdout.splitlines()[0])
    assert (found["ok"], found["exit_code"], found["error"]) == (False, 3, str(gone))
    assert [r["size"] for r in found["rows"]] == [4096, 8192]
    pretend(monkeypatch, gone)
    assert CliRunner().invoke(app, ["perf", "127.0.0.1"]).exit_code == 3


@pytest.mark.parametrize(
    ("asked", "client_says", "server_says"),
    [
        ([], "", ""),
        (["client"], "iCRC on: only this end asked for none", "iCRC on: only the client asked for none"),
        (["server"], "iCRC on: only the server asked for none", "iCRC on: only this end asked for none"),
        (["client", "server"], "iCRC off", "iCRC off"),
    ],
)
def test_both_ends_tell_about_the_icrc(monkeypatch, asked, client_says, server_says):
    agreed = {"icrc": len(asked) < 2, "icrc_off_asked": asked}
    _, printed = pretend(monkeypatch, {**ROW, **agreed})
    assert CliRunner().invoke(app, ["perf", "127.0.0.1"]).exit_code == 0
    served = serve_and_tell(monkeypatch, ("start", {"peer": "10.0.0.2:5", **Plan().to_json(), **agreed}))
    for line, words in ((printed[0], client_says), (served, server_says)):
        assert words in line
        assert ("iCRC" in line) == bool(words)


def serve_and_tell(monkeypatch, *events):
    """What a server says about events, without being one."""

    class Server:
        def __init__(self, *_, tell, **__):
            self.tell = tell

        async def run(self):
            for event in events:
                self.tell(*event)

    monkeypatch.setattr("softmrc.perf.Server", Server)
    result = CliRunner().invoke(app, ["perf"])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize(("moved", "shown"), [(999_999, False), (1_000_000, True)])
def test_cpu_for_a_gigabyte_is_not_told_from_a_handful_of_bytes(monkeypatch, moved, shown):
    _, printed = pretend(monkeypatch, {**ROW, "bytes": moved, "cpu_s_per_gb": 12.345})
    assert CliRunner().invoke(app, ["perf", "127.0.0.1"]).exit_code == 0
    assert (printed[2].split()[-1] == "12.345") == shown
    assert (printed[2].split()[-1] == "-") != shown
    assert ("CPU per GB" in printed[3]) == shown


def test_what_happens_is_recorded(serve, tmp_path):
    events, trace = tmp_path / "events.jsonl", tmp_path / "trace.qlog"
    done = run(serve(), "-s", "4k", "-D", "0.3", "--events", str(events), "--qlog", str(trace), "--json")
    assert done.returncode == 0, done.stderr
    kinds = [json.loads(line)["kind"] for line in events.read_text().splitlines()]
    assert kinds[0] == "start"
    assert trace.stat().st_size > 0


def test_interrupts_print_what_there_is(serve):
    server = serve()
    words = client(server, "-s", "4k", "-D", "60", "--json")
    # A shell that runs the tests in the background has them ignore the signal, and children inherit that.
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:  # fmt: skip
        try:
            # The first row proves the path; what works on after it is the measurement.
            _wait(process, lambda: "row" in server.names())
            begun = _cpu(process.pid)
            _wait(process, lambda: _cpu(process.pid) > begun + 0.3)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=40)
        finally:
            process.kill()
    assert process.returncode == 130, err
    found = json.loads(out)
    assert found["partial"]
    assert 0 < found["seconds"] < 60
    assert found["bytes"] > 0


def _wait(process, ready):
    while not ready():
        assert process.poll() is None
        os.sched_yield()


def _cpu(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["127.0.0.1", "-s", "x"], 2, "--size takes bytes"),
        (["127.0.0.1", "-s", "8", "-a"], 2, "one size"),
        (["127.0.0.1", "--op", "read"], 2, "--op is one of"),
        (["127.0.0.1", "-q", "5000", "-s", "8"], 2, "--qps is 1 to 2048 queue pairs, not 5000"),
        (["127.0.0.1", "-D", "0", "-s", "8"], 2, "--duration"),
        (["127.0.0.1", "-D", "nan", "-s", "8"], 2, "duration"),
        (["127.0.0.1", "-m", "100", "-s", "8"], 2, "--mtu is a multiple of 64 from 256 to 8960 bytes"),
        (["127.0.0.1", "-t", "0", "-s", "8"], 2, "--tx-depth is 1 to 8192 messages in flight"),
        (["127.0.0.1", "--delay-mark-us", "-1"], 2, "--delay-mark-us is 0 to 10000000 microseconds, not -1"),
        (["127.0.0.1", "--spin-us", "-1"], 2, "--spin-us is 0 to 1000000 microseconds, not -1"),
        (["127.0.0.1", "--ev-run", "4097", "-s", "8"], 2, "--ev-run is 0 to 4096 packets, not 4097"),
        (["127.0.0.1", "--backups", "16"], 2, "--backups is 0 to 15 EVs"),
        (["127.0.0.1", "--batching", "x"], 2, "--batching is one of auto, gso, mmsg"),
        (["127.0.0.1", "--region-size", "4g", "-s", "8"], 2, "--region-size is 1 to 1073741824 bytes"),
        (["127.0.0.1", "--port", "1", "-s", "8", "--metrics", "999999"], 2, "metrics address '999999'"),
        (["127.0.0.1", "--port", "1", "-s", "8", "--events", "/nosuch/x"], 2, "cannot write /nosuch/x"),
        (["127.0.0.1", "--port", "1", "-s", "8", "--qlog", "/nosuch/x"], 2, "cannot write /nosuch/x"),
        (["127.0.0.1", "--port", "1", "-s", "8", "--planes", "203.0.113.1"], 2, "203.0.113.1"),
        (["127.0.0.1", "--planes", "x", "-s", "8"], 2, "not an IPv4 or IPv6 address"),
        (["127.0.0.1", "--port", "1", "--timeout", "0.1", "-s", "8"], 3, "nobody answers"),
        (["--planes", "203.0.113.1", "--once"], 2, "203.0.113.1"),
        (["127.0.0.1", "--token", "", "-s", "8"], 2, "empty token"),
        (["127.0.0.1", "--timeout", "nan", "-s", "8"], 2, "--timeout"),
        (["127.0.0.1", "--timeout", "-1", "-s", "8"], 2, "--timeout"),
        (["127.0.0.1", "--cpus", "x", "-s", "8"], 2, "cpus is a list like 0-3,8"),
        (["127.0.0.1", "--cpus", "8191", "-s", "8"], 2, "CPU 8191 is not among"),
        (["127.0.0.1", "--numa", "lo", "-s", "8"], 2, "nobody knows which NUMA node lo hangs on"),
        (["--numa", "nothere0"], 2, "is none here"),
        (["--numa", "lo", "--cpus", "0"], 2, "give one of them"),
    ],
)
def test_errors_say_what_and_how(words, code, text):
    result = CliRunner().invoke(app, ["perf", *words])
    assert result.exit_code == code, result.output
    assert text in result.output
    assert "Traceback" not in result.output


def test_a_port_that_is_taken(serve):
    server = serve()
    result = CliRunner().invoke(app, ["perf", "--planes", "127.0.0.61", "--port", str(server.port)])
    assert result.exit_code == 1
    assert "in use" in result.output


@pytest.mark.parametrize(
    ("text", "count"), [("0", 0), ("65536", 65536), ("64k", 65536), ("1M", 1 << 20), ("2g", 2 << 30)]
)
def test_sizes_as_people_write_them(text, count):
    assert _bytes(text, "size") == count


@pytest.mark.parametrize("text", ["", "k", "-1", "1.5k", "1t", "٣", "1" * 13])
def test_sizes_as_nobody_should(text):
    with pytest.raises(UsageError):
        _bytes(text, "size")
