"""Both commands against each other over loopback, with kills in the middle."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

CHUNK = 8 << 20
PLANES = "127.0.0.1,127.0.0.2"


def command(*args):
    return [sys.executable, "-m", "softmrc.cli.app", *map(str, args)]


class Recv:
    """A receiving process; its JSON lines."""

    def __init__(self, out, *extra):
        args = command(
            "recv", "--listen", PLANES, "--dir", out, "--port", 0, "--token", "right", "--json", *extra
        )
        self.process = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.lines = [json.loads(self.process.stdout.readline())]
        self.port = self.lines[0]["port"]
        self._more = threading.Condition()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self):
        for line in self.process.stdout:
            with self._more:
                self.lines.append(json.loads(line))
                self._more.notify_all()

    def wait_for(self, event, timeout=30):
        with self._more:
            assert self._more.wait_for(lambda: any(x["event"] == event for x in self.lines), timeout), (
                self.lines
            )
        return next(x for x in self.lines if x["event"] == event)

    def end(self, how=signal.SIGKILL):
        if self.process.poll() is None:
            self.process.send_signal(how)
        self.process.wait(20)
        self._thread.join()
        self.process.stdout.close()
        self.process.stderr.close()


@pytest.fixture
def recv(tmp_path):
    started = []

    def start(*extra):
        started.append(Recv(tmp_path / "out", *extra))
        return started[-1]

    yield start
    for r in started:
        r.end()


def send(port, *paths, token="right", timeout=50):
    done = subprocess.run(
        command("send", *paths, f"127.0.0.1:{port}", "--token", token, "--json"),
        capture_output=True, text=True, timeout=timeout,
    )  # fmt: skip
    return done.returncode, json.loads(done.stdout), done.stderr


def big_file(path, chunks=12):
    block = os.urandom(1 << 20)
    with open(path, "wb") as f:
        for i in range(chunks * 8):
            f.write(i.to_bytes(8, "big") + block[8:])
        f.write(b"tail")
    return path


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def staged(tmp_path):
    """Chunks journaled so far."""
    journals = list((tmp_path / "out" / ".softmrc-partial").glob("*.journal"))
    return sum(max(0, (j.stat().st_size - 60) // 40) for j in journals)


def test_a_tree_arrives_with_everything(recv, tmp_path):
    src = tmp_path / "src"
    (src / "sub" / "empty").mkdir(parents=True)
    (src / "a").write_bytes(b"abc")
    (src / "sub" / "zero").touch(mode=0o600)
    (src / "link").symlink_to("a")
    for i in range(40):
        (src / "sub" / f"n{i}").write_bytes(bytes([i]) * i * 100)
    os.utime(src / "sub", ns=(3, 5))
    os.chmod(src / "a", 0o750)
    r = recv("--once")
    code, result, stderr = send(r.port, src)
    assert code == 0
    assert "link: symbolic link" in stderr
    assert result["files"] == 42
    assert r.process.wait(20) == 0
    out = tmp_path / "out" / "src"
    for path in sorted(p for p in src.rglob("*") if not p.is_symlink()):
        twin = out / path.relative_to(src)
        assert twin.stat().st_mode == path.stat().st_mode
        assert twin.stat().st_mtime_ns == path.stat().st_mtime_ns
        assert path.is_dir() or twin.read_bytes() == path.read_bytes()
    assert not (out / "link").exists()
    assert not (tmp_path / "out" / ".softmrc-partial").exists()
    assert result["planes"] == 2  # one address was given, both planes were used


def test_a_wrong_token_learns_nothing(recv, tmp_path):
    (tmp_path / "f").write_bytes(b"x")
    r = recv()
    code, result, _ = send(r.port, tmp_path / "f", token="wrong")
    assert code == 3
    assert "token" in result["error"]
    assert not (tmp_path / "out" / "f").exists()
    assert send(r.port, tmp_path / "f")[0] == 0


def test_nobody_listens(tmp_path):
    (tmp_path / "f").write_bytes(b"x")
    code, result, _ = send(1, tmp_path / "f")
    assert code == 3
    assert result["ok"] is False


def kill_in_the_middle(victim, tmp_path, other):
    """Kill `victim` once some chunks are journaled and some are missing."""
    end = time.monotonic() + 30
    while staged(tmp_path) < 2:
        assert time.monotonic() < end
        assert victim.poll() is None, "it was over before it could be killed"
        time.sleep(0.002)
    victim.send_signal(signal.SIGKILL)
    victim.wait(10)
    assert other is not None


def test_killed_sender_goes_on(recv, tmp_path):
    big = big_file(tmp_path / "big", 24)
    r = recv("--once")
    args = command("send", big, f"127.0.0.1:{r.port}", "--token", "right", "--json")
    sender = subprocess.Popen(args, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    kill_in_the_middle(sender, tmp_path, r)
    assert not (tmp_path / "out" / "big").exists()
    code, result, stderr = send(r.port, big)
    assert code == 0, stderr
    assert digest(tmp_path / "out" / "big") == digest(big)
    assert result["bytes_kept"] >= 2 * CHUNK
    assert result["bytes"] + result["bytes_kept"] == big.stat().st_size
    assert r.process.wait(20) == 0


def test_killed_receiver_goes_on(recv, tmp_path):
    big = big_file(tmp_path / "big", 24)
    r = recv()
    args = command("send", big, f"127.0.0.1:{r.port}", "--token", "right", "--json")
    sender = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    kill_in_the_middle(r.process, tmp_path, sender)
    sender.send_signal(signal.SIGKILL)  # its own time-out is tested elsewhere
    sender.communicate()
    code, result, stderr = send(recv("--once").port, big)
    assert code == 0, stderr
    assert digest(tmp_path / "out" / "big") == digest(big)
    assert result["bytes_kept"] >= 2 * CHUNK


def test_the_same_again_sends_nothing(recv, tmp_path):
    big = big_file(tmp_path / "big", 2)
    r = recv()
    assert send(r.port, big)[1]["bytes"] == big.stat().st_size
    code, result, _ = send(r.port, big)
    assert code == 0
    assert (result["bytes"], result["bytes_kept"]) == (0, big.stat().st_size)


def test_a_changed_file_replaces_the_old_one(recv, tmp_path):
    f = tmp_path / "f"
    f.write_bytes(b"old")
    r = recv()
    assert send(r.port, f)[0] == 0
    stamp = f.stat().st_mtime_ns
    f.write_bytes(b"new")
    os.utime(f, ns=(stamp, stamp))  # same size, same time, other bytes: only the hash tells
    assert send(r.port, f)[0] == 0
    assert (tmp_path / "out" / "f").read_bytes() == b"new"


def test_a_directory_in_the_way_is_an_error_on_both_sides(recv, tmp_path):
    (tmp_path / "f").write_bytes(b"x")
    (tmp_path / "out" / "f").mkdir(parents=True)
    r = recv("--once")
    code, result, _ = send(r.port, tmp_path / "f")
    assert code == 1
    assert "exists" in result["error"]
    assert r.process.wait(20) == 1
    assert "exists" in r.wait_for("end")["error"]
