"""A small process that sets one fault, keeps its time and ends it, for commands that do not wait for that.

It belongs to the lab (`Lab.adopt`): `lab down` ends it, and it ends itself when its fault is healed or the lab is gone.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from softmrc.errors import MrcError, UsageError
from softmrc.lab.condition import Harm
from softmrc.lab.ledger import Fault

if TYPE_CHECKING:
    from softmrc.lab.lab import Lab

__all__ = ["start"]


def start(
    lab: Lab, target: str, harm: Harm, seconds: float | None = None, flap: tuple[float, float] | None = None
) -> Fault:
    """Set a fault whose time is kept after this process has ended; see `softmrc.lab.faults.fail`.

    Returns:
        The fault, in force.

    Raises:
        UsageError: as `fail`.
        MrcError: as `fail`, or the process does not start.
    """
    child = subprocess.Popen(
        [sys.executable, "-m", "softmrc.lab.keeper"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True, start_new_session=True, cwd="/",
    )  # fmt: skip
    asked = {"lab": lab.name, "target": target, "harm": harm.to_json(), "seconds": seconds, "flap": flap}
    line = ""
    assert child.stdin is not None
    assert child.stdout is not None
    with child.stdin, child.stdout, contextlib.suppress(BrokenPipeError):
        child.stdin.write(json.dumps(asked) + "\n")
        child.stdin.flush()
        line = child.stdout.readline()
    child.wait()
    answer = json.loads(line or '{"error": "the process that keeps the time of faults has ended"}')
    if "usage" in answer:
        raise UsageError(answer["usage"])
    if "error" in answer:
        raise MrcError(answer["error"])
    return Fault.from_json(answer["fault"])


def _main() -> None:
    from softmrc.lab import Lab
    from softmrc.lab.faults import Timekeeper, set_fault

    if os.fork():  # whoever asked is not to have a child that it knows nothing of
        os._exit(0)
    asked = json.loads(sys.stdin.readline())
    flap = (asked["flap"][0], asked["flap"][1]) if asked["flap"] else None
    lab = fault = None
    answer: dict[str, Any]
    try:
        lab = Lab.load(asked["lab"])
        lab.adopt(os.getpid())
        fault = set_fault(lab, asked["target"], Harm(**asked["harm"]), asked["seconds"], flap)
        answer = {"fault": fault.to_json()}
    except UsageError as error:
        answer = {"usage": str(error)}
    except MrcError as error:
        answer = {"error": str(error)}
    print(json.dumps(answer), flush=True)
    # The command that asked may be somebody's pipe: hold none of it open.
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1):
        os.dup2(nowhere, number)
    if lab is not None and fault is not None:
        Timekeeper(lab, fault).run()


if __name__ == "__main__":
    _main()
