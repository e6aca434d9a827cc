"""How commands talk: results to stdout, everything else to stderr, and one way to end with an error.

Exit codes: 0 done · 1 failed, or a promise does not hold · 2 wrong use · 3 refused or unreachable peer ·
4 done except for files named in the output · 130 interrupted.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
from collections.abc import Iterator
from typing import NoReturn

import typer

__all__ = [
    "FAILED",
    "INCOMPLETE",
    "INTERRUPTED",
    "REFUSED",
    "USAGE",
    "fail",
    "guard",
    "human_bytes",
    "human_rate",
    "note",
    "put_json",
    "quiet_library",
]

FAILED = 1
USAGE = 2
REFUSED = 3
INCOMPLETE = 4
INTERRUPTED = 130


def note(text: str) -> None:
    """Say something to the person, not to a program."""
    print(text, file=sys.stderr, flush=True)


def quiet_library() -> None:
    """Keep the library's own remarks off the terminal: commands say themselves which planes they use."""
    logging.getLogger("softmrc").setLevel(logging.ERROR)


def put_json(data: object) -> None:
    """Print one JSON object on one line."""
    print(json.dumps(data), flush=True)


def fail(command: str, why: str, code: int, as_json: bool = False) -> NoReturn:
    """End with an error that names the command and the reason."""
    if as_json:
        put_json({"ok": False, "error": why, "exit_code": code})
    note(f"softmrc {command}: {why}")
    raise typer.Exit(code)


@contextlib.contextmanager
def guard(command: str, as_json: bool = False) -> Iterator[None]:
    """Turn the errors of the package into messages and exit codes."""
    from softmrc.errors import MrcError, PeerError, UsageError, VerbsError

    try:
        yield
    except UsageError as error:
        fail(command, str(error), USAGE, as_json)
    except PeerError as error:
        fail(command, str(error), REFUSED, as_json)
    except VerbsError as error:
        fail(command, error.strerror or str(error), FAILED, as_json)
    except MrcError as error:
        fail(command, str(error), FAILED, as_json)
    except BrokenPipeError:
        # Whoever read our output is gone; there is nobody left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(FAILED) from None
    except OSError as error:
        fail(command, f"{error.filename or 'system call'}: {error.strerror or error}", FAILED, as_json)
    except KeyboardInterrupt:
        fail(command, "interrupted", INTERRUPTED, as_json)


def human_bytes(count: float) -> str:
    """Return a size for people: "12.3 MB"."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if count < 1000 or unit == "TB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError("unreachable")


def human_rate(bytes_per_second: float) -> str:
    """Return a rate for people: "812 Mbit/s"."""
    bits = bytes_per_second * 8
    return f"{bits / 1e9:.2f} Gbit/s" if bits >= 1e9 else f"{bits / 1e6:.0f} Mbit/s"
