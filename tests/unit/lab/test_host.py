"""What a host can do for a lab, with hosts that lack one thing or another."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from softmrc.errors import UsageError
from softmrc.lab import Lab, LabSpec
from softmrc.lab import host as lab_host
from softmrc.lab.plan import make_plan
from softmrc.lab.state import known
from softmrc.netns import host as netns_host
from softmrc.netns.enter import names

ROOM = make_plan(LabSpec())


def trials(monkeypatch: pytest.MonkeyPatch, *failing: str) -> None:
    """Let the trials whose commands contain these words fail."""

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        lines = command[-1].splitlines()
        out = [line.rpartition("echo ")[2] for line in lines if not any(word in line for word in failing)]
        return subprocess.CompletedProcess(command, 0, "\n".join(out), "")

    monkeypatch.setattr(lab_host, "missing", lambda: ())
    monkeypatch.setattr(lab_host.subprocess, "run", run)


@pytest.mark.parametrize(
    ("failing", "words"),
    [
        ("type veth", "CONFIG_VETH"),
        ("type ifb", "CONFIG_IFB"),
        ("action End dev", "CONFIG_IPV6_SEG6_LWTUNNEL"),
        ("next-csid", "next-csid flavor"),
        ("htb", "CONFIG_NET_SCH_HTB"),
    ],
)
def test_what_the_kernel_lacks_is_named_and_the_user_space_switch_taken_b42(
    monkeypatch: pytest.MonkeyPatch, failing: str, words: str
) -> None:
    trials(monkeypatch, failing)
    (lack,) = lab_host.kernel_lacks()
    assert words in lack
    choice = lab_host.choose("auto")
    assert (choice.mode, words in choice.why) == ("soft", True)
    with pytest.raises(UsageError, match="--switch soft") as caught:
        lab_host.choose("kernel")
    assert words in str(caught.value)


def test_a_kernel_that_has_it_all_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    trials(monkeypatch)
    assert lab_host.kernel_lacks() == ()
    assert lab_host.choose("auto").mode == lab_host.choose("kernel").mode == "kernel"
    assert lab_host.choose("soft").mode == "soft"
    delayed = lab_host.choose("auto", 1000)
    assert (delayed.mode, "no netem" in delayed.why) == ("soft", True)


@pytest.mark.parametrize(
    ("uid", "held", "words"),
    [
        (0, 1 << 21, "CAP_NET_ADMIN"),
        (0, 1 << 12, "CAP_SYS_ADMIN"),
        (0, 0, "CAP_NET_ADMIN and CAP_SYS_ADMIN"),
        (1000, 0, "needs root"),
    ],
)
def test_without_the_rights_nothing_is_half_created_b43(
    monkeypatch: pytest.MonkeyPatch, uid: int, held: int, words: str
) -> None:
    monkeypatch.setattr(netns_host, "_effective_capabilities", lambda: held)
    monkeypatch.setattr(netns_host.os, "geteuid", lambda: uid)
    netns_host.missing.cache_clear()
    try:
        with pytest.raises(UsageError, match=words):
            Lab.up(LabSpec(name="norights", switch="kernel"))
    finally:
        netns_host.missing.cache_clear()
    assert names("norights-") == []
    assert "norights" not in known()


def test_too_little_room_is_said_before_anything_is_made_b44(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab_host.resource, "getrlimit", lambda _: (100, 100))
    monkeypatch.setattr(lab_host, "_number", lambda file: 5 if "namespaces" in file else 64)
    monkeypatch.setattr(lab_host, "_available_memory", lambda: 1 << 20)
    files, spaces, memory = lab_host.room_lacks(ROOM)
    assert "ulimit -n" in files
    assert "user.max_net_namespaces=64" in spaces
    assert "1 MiB are free" in memory
    (note,) = lab_host.room_notes(ROOM)
    assert "net.ipv6.neigh.default.gc_thresh3=512" in note


def test_enough_room_is_no_news(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab_host.resource, "getrlimit", lambda _: (65536, 65536))
    monkeypatch.setattr(lab_host, "_number", lambda _: 100_000)
    monkeypatch.setattr(lab_host, "_available_memory", lambda: 1 << 34)
    assert (lab_host.room_lacks(ROOM), lab_host.room_notes(ROOM)) == ((), ())
