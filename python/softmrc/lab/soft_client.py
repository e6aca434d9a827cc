"""Asks the process of a user-space switch; see soft_switch.py."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from typing import Any

from softmrc.errors import MrcError, UsageError
from softmrc.lab.soft_switch import control_file

__all__ = ["ask", "start_switch"]

_PATIENCE_S = 10.0


def ask(name: str, do: str, **more: Any) -> Any:
    """Return the switch's answer to a request.

    Args:
        name: of the lab.
        do: the request: "lines", "counters", "faults", "record", "stop_recording" or "stats".
        more: what belongs to it.

    Raises:
        MrcError: the switch is gone, or does not answer.
        UsageError: it refused; the text says why.
    """
    line = json.dumps({"do": do, **more}).encode() + b"\n"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as one:
        one.settimeout(_PATIENCE_S)
        try:
            one.connect(str(control_file(name)))
            one.sendall(line)
            with one.makefile("rb") as stream:
                text = stream.readline()
            answer = json.loads(text)
        except (OSError, ValueError) as error:
            raise MrcError(
                f"the user-space switch of lab {name} does not answer ({error}): softmrc lab down --name {name}, up"
            ) from None
    if "error" in answer:
        raise UsageError(f"lab {name}: {answer['error']}")
    return answer["ok"]


def start_switch(name: str, keep: bool) -> tuple[subprocess.Popen[str], dict[str, Any]]:
    """Start the process; returns it and where its hosts' ports are, once it is ready.

    Args:
        name: of the lab, whose state is on disk.
        keep: it outlives this process.

    Raises:
        MrcError: it did not start; the text has its words.
    """
    command = [sys.executable, "-m", "softmrc.lab.soft_switch", name, *(["--keep"] if keep else [])]
    began = time.monotonic()
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL if keep else subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    line = process.stdout.readline()
    if not line:
        process.wait()
        words = process.stderr.read().strip().splitlines()
        raise MrcError(
            f"the user-space switch ended after {time.monotonic() - began:.1f} s: {words[-1] if words else 'no words'}"
        )
    ready: dict[str, Any] = json.loads(line)
    if "error" in ready:
        process.wait()
        raise MrcError(str(ready["error"]))
    process.stdout.close()
    process.stderr.close()
    return process, ready
