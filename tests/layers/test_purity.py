"""The engine's libraries need nothing from their environment: `nm -u` shows no call into it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from tests.layers.repo import BUILD

ROOMS = ("wire", "ev", "cc", "reliability", "impair", "engine", "sim")
FORBIDDEN = re.compile(
    r"^(socket|bind|connect|accept|listen|send|sendto|sendmsg|sendmmsg|recv|recvfrom|recvmsg|recvmmsg|setsockopt|"
    r"open|openat|read|write|close|ioctl|mmap|poll|ppoll|epoll_\w+|select|eventfd|"
    r"clock_gettime|clock_nanosleep|gettimeofday|time|nanosleep|usleep|sleep|"
    r"getenv|secure_getenv|setenv|system|fork|exec\w*|"
    r"pthread_(?!mutex_(un)?lock$|once$)\w+|thrd_\w+|mtx_\w+|"
    r"rand|rand_r|random|srand|drand48|getrandom|getentropy|arc4random\w*|"
    r"\w*printf\w*|puts|putchar|fputs|fputc|fwrite|fopen\w*|syslog|perror|"
    r"_?Py\w*|"
    r"_ZNSt6chrono\w*|_ZNSt6thread\w*|_ZNSt13random_device\w*|_ZSt4cout|_ZSt4cerr|_ZSt4clog)$"
)


def library(room: str) -> Path:
    return BUILD / "core" / room / f"libmrc_{room}.a"


def undefined(lib: Path) -> set[str]:
    run = subprocess.run(["nm", "-u", str(lib)], capture_output=True, text=True, check=True)
    lines = (line.split() for line in run.stdout.splitlines())
    return {words[-1].split("@")[0] for words in lines if len(words) == 2 and words[0] in {"U", "w"}}


@pytest.mark.parametrize("room", ROOMS)
def test_no_call_into_the_environment(room: str) -> None:
    lib = library(room)
    assert lib.exists(), f"{lib} is missing: run `make build` first"
    names = undefined(lib)
    assert names, "nm showed nothing: is this a stripped library?"
    assert sorted(n for n in names if FORBIDDEN.match(n)) == []


def test_the_gate_sees_what_it_forbids() -> None:
    # net is allowed all of this; if the pattern does not match there, it matches nowhere.
    names = undefined(library("net"))
    caught = {n for n in names if FORBIDDEN.match(n)}
    assert {"socket", "clock_gettime"} <= caught or {"socket", "eventfd"} <= caught
