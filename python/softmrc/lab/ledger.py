"""The faults that are in force in a lab, on disk: so that any process can add to them and heal them.

Decides what is remembered about a fault, and that only one process changes it at a time. It also keeps what faults have
taken away in the kernel, as the kernel told it, until all of it is back.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from softmrc.errors import MrcError, UsageError
from softmrc.lab.condition import Harm
from softmrc.lab.state import file_of

__all__ = ["Fault", "Ledger", "forget", "ledger_file", "opened"]


def ledger_file(name: str) -> Path:
    """Return where a lab's faults are kept."""
    return file_of(name, "faults.json")


@dataclass
class Fault:
    """One fault.

    Attributes:
        number: counts a lab's faults from 1.
        target: what was named.
        links: its links; each with the side that goes down if it cuts.
        harm: what it does to each.
        on: it is in force now; a flapping fault is on and off.
        flap: seconds down and up in turn; None: it stays.
        since_ns: CLOCK_MONOTONIC when it was set.
        until_ns: CLOCK_MONOTONIC when it ends by itself; None: never.
    """

    number: int
    target: str
    links: dict[str, str]
    harm: Harm
    on: bool = True
    flap: tuple[float, float] | None = None
    since_ns: int = 0
    until_ns: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the fields."""
        found = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return found | {"harm": self.harm.to_json(), "flap": list(self.flap) if self.flap else None}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Fault:
        """Read what `to_json` made."""
        flap = data["flap"]
        return cls(**(data | {"harm": Harm(**data["harm"]), "flap": tuple(flap) if flap else None}))


@dataclass
class Ledger:
    """What is in force, and what is to be put back.

    Attributes:
        faults: in the order in which they came.
        saved: by node: routes, neighbours and addresses of before, see `softmrc.lab.restore`.
        last: the last number given.
        file: where it is kept.
    """

    faults: list[Fault] = field(default_factory=list)
    saved: dict[str, dict[str, Any]] = field(default_factory=dict)
    last: int = 0
    file: Path | None = None

    def keep(self) -> None:
        """Write it, whole or not at all."""
        if self.file is not None:
            part = self.file.with_name(f".{self.file.name}.part")
            part.write_text(json.dumps(self.to_json()), encoding="utf-8")
            part.replace(self.file)

    def to_json(self) -> dict[str, Any]:
        """Return what is kept."""
        return {"last": self.last, "faults": [f.to_json() for f in self.faults], "saved": self.saved}


def _read(file: Path) -> Ledger:
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        return Ledger([Fault.from_json(f) for f in data["faults"]], data["saved"], data["last"], file)
    except FileNotFoundError:
        return Ledger(file=file)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise MrcError(f"{file} is no list of faults ({error}); softmrc lab down, then up again") from None


@contextlib.contextmanager
def opened(name: str, *, change: bool = True) -> Iterator[Ledger]:
    """Give out a lab's ledger, alone for as long as the block runs, and with `change` write it at its end.

    What the block did before an error is written too: the kernel has it already.

    Raises:
        UsageError: the lab is gone.
        MrcError: the file cannot be read or written.
    """
    file = ledger_file(name)
    if not file_of(name, "json").exists():
        raise UsageError(f"there is no lab {name}: softmrc lab up --name {name}")
    try:
        lock = os.open(file_of(name, "faults.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise MrcError(f"faults of lab {name}: {error.filename}: {error.strerror}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ledger = _read(file)
        try:
            yield ledger
        finally:
            if change:
                ledger.keep()
    finally:
        os.close(lock)


def forget(name: str) -> None:
    """Remove what is kept about the faults of a lab that is gone. Idempotent."""
    file = ledger_file(name)
    for kept in (file, file.with_name(f".{file.name}.part"), file_of(name, "faults.lock")):
        kept.unlink(missing_ok=True)
