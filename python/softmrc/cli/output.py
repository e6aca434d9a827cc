"""How commands talk: results to stdout, everything else to stderr, and one way to end with an error.

Exit codes: 0 done · 1 failed, or a promise does not hold · 2 wrong use · 3 refused or unreachable peer ·
4 done except for files named in the output · 130 interrupted.
"""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import json
import logging
import os
import sys
from collections.abc import Iterator
from typing import NoReturn

import typer

from softmrc.text import visible

__all__ = [
    "FAILED",
    "INCOMPLETE",
    "INTERRUPTED",
    "REFUSED",
    "USAGE",
    "OutputError",
    "discard_output",
    "explain_output",
    "fail",
    "guard",
    "human_bytes",
    "human_rate",
    "need",
    "note",
    "put",
    "put_json",
    "quiet_library",
]

FAILED = 1
USAGE = 2
REFUSED = 3
INCOMPLETE = 4
INTERRUPTED = 130

# Libraries that only some commands need, and the extra of this package that brings each.
_EXTRA_OF = {
    "google": "chakra",
    "joblib": "sim",
    "matplotlib": "plot",
    "numpy": "sim",
    "prometheus_client": "metrics",
    "pyarrow": "sim",
    "pyroute2": "bench",
    "sklearn": "train",
    "torch": "torch",
}


class OutputError(Exception):
    """Standard output takes nothing more: the disk is full, or its reader is gone."""

    def __init__(self, cause: OSError) -> None:
        """Keep what the system said."""
        super().__init__(explain_output(cause))
        self.quiet = cause.errno == errno.EPIPE
        """Nobody is left to be told."""


def explain_output(cause: OSError) -> str:
    """Return one line about why nothing could be written."""
    return f"cannot write to standard output: {cause.strerror or cause}"


def discard_output() -> None:
    """Let whatever is still buffered for standard output vanish, so that the interpreter's own end is quiet."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def note(text: str) -> None:
    """Say something to the person, not to a program; without a standard error nobody listens."""
    with contextlib.suppress(OSError):
        print(visible(text, lines=True), file=sys.stderr, flush=True)


def put(text: str) -> None:
    """Print a result for a person.

    Raises:
        OutputError: standard output takes nothing.
    """
    _write(visible(text, lines=True))


def _write(text: str) -> None:
    try:
        print(text, flush=True)
    except UnicodeEncodeError as error:  # the locale's encoding has no such character
        _write(text.encode(error.encoding, "backslashreplace").decode(error.encoding))
    except OSError as error:
        raise OutputError(error) from None


class _Once(logging.Filter):
    """Lets each remark through once: some commands connect twice."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        new = text not in self._seen
        self._seen.add(text)
        return new


_once = _Once()


def quiet_library() -> None:
    """Keep the library's own remarks off the terminal: commands say themselves which planes they use.

    What it says about paths (`softmrc.paths`: packet sizes, IPv6 that is off) comes to standard error, once.
    """
    logging.getLogger("softmrc").setLevel(logging.ERROR)
    paths = logging.getLogger("softmrc.paths")
    paths.setLevel(logging.WARNING)
    paths.addFilter(_once)


def put_json(data: object) -> None:
    """Print one JSON object on one line.

    Raises:
        OutputError: standard output takes nothing.
    """
    _write(json.dumps(data))


def fail(command: str, why: str, code: int, as_json: bool = False) -> NoReturn:
    """End with an error that names the command and the reason; the exit code tells it, too."""
    note(f"softmrc {command}: {why}")
    if as_json:
        with contextlib.suppress(OutputError):
            put_json({"ok": False, "error": visible(why), "exit_code": code})
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
        # Whoever names an address that this host has not got asks for what cannot be.
        code = USAGE if error.errno == errno.EADDRNOTAVAIL else FAILED
        fail(command, error.strerror or str(error), code, as_json)
    except MrcError as error:
        fail(command, str(error), FAILED, as_json)
    except BrokenPipeError:
        # Whoever read our output is gone; there is nobody left to tell.
        discard_output()
        raise typer.Exit(FAILED) from None
    except OSError as error:
        fail(command, f"{error.filename or 'system call'}: {error.strerror or error}", FAILED, as_json)
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        if library not in _EXTRA_OF:
            raise
        install = f"pip install 'softmrc[{_EXTRA_OF[library]}]'"
        fail(command, f"{library} is not installed, and this command needs it: {install}", USAGE, as_json)
    except KeyboardInterrupt:
        fail(command, "interrupted", INTERRUPTED, as_json)


def need(*libraries: str) -> None:
    """Look for libraries that a command uses only at its end, before it begins.

    Raises:
        ModuleNotFoundError: one is not installed; `guard` says which extra brings it.
    """
    for library in libraries:
        if importlib.util.find_spec(library) is None:
            raise ModuleNotFoundError(f"No module named {library!r}", name=library)


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
