"""Breaks a lab's links and heals them.

`fail` and `heal` act within milliseconds and may be called from any thread and process; faults on one link add up and
heal in any order. What is in force is in the lab's ledger, so `softmrc lab heal` ends what a program began. Faults that
end by themselves, or flap, need somebody who keeps the time: a thread here, or a process of its own (keeper.py).
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from softmrc.errors import MrcError, UsageError
from softmrc.lab.condition import Harm, LinkState, compose
from softmrc.lab.ends import Change, KernelLines
from softmrc.lab.ledger import Fault, Ledger, forget, opened

if TYPE_CHECKING:
    from softmrc.lab.lab import Lab
    from softmrc.lab.names import Link

__all__ = ["Timekeeper", "active", "fail", "forget", "heal", "lines_of", "release", "set_fault", "switch_on"]

_SWITCH = re.compile(r"p\d+\.t[012]-\d+")
_POLL_S = 0.5  # how soon a thread notices that its fault was healed by somebody else
_lines_lock = threading.Lock()
_lines: weakref.WeakKeyDictionary[Lab, KernelLines] = weakref.WeakKeyDictionary()


def lines_of(lab: Lab) -> KernelLines:
    """Return the open sockets into a lab's links; one set for each lab object."""
    with _lines_lock:
        if lab not in _lines:
            _lines[lab] = KernelLines(lab)
            weakref.finalize(lab, _lines[lab].close)
        return _lines[lab]


def release(lab: Lab) -> None:
    """Close the sockets into a lab's links, which keep its namespaces alive. Idempotent."""
    with _lines_lock:
        lines = _lines.pop(lab, None)
    if lines is not None:
        lines.close()


def fail(
    lab: Lab,
    target: str,
    *,
    silent: bool = False,
    loss: float = 0.0,
    corrupt: float = 0.0,
    rate: float = 1.0,
    direction: str = "both",
    end: str | None = None,
    seconds: float | None = None,
    flap: tuple[float, float] | None = None,
) -> Fault:
    """Break links; returns when it is done. Without further words they go down.

    Args:
        lab: the lab.
        target: a link, host, switch, plane or group; see `softmrc.lab.targets`.
        silent: packets vanish while the link stays up.
        loss: share of packets that vanish, 0 to 1.
        corrupt: share of packets in which one byte is changed, 0 to 1.
        rate: share of the rate that is left, above 0.
        direction: "up" (away from the hosts), "down" or "both".
        end: which end is set down, "lower" or "upper"; None: the one at the switch that fails, else the upper.
        seconds: a thread heals it after so long, as long as this process lives; `keeper.start` outlives it.
        flap: a thread puts it in force and out of it in turn, each so many seconds.

    Returns:
        The fault, for instance to heal it: `heal(lab, fault.number)`.

    Raises:
        UsageError: no such target, values out of range, or this host lacks what is needed.
        MrcError: the system refused.
    """
    harm = Harm(silent=silent, loss=loss, corrupt=corrupt, rate=rate, direction=direction, end=end)
    fault = set_fault(lab, target, harm, seconds, flap)
    if seconds is not None or flap is not None:
        Timekeeper(lab, fault).start()
    return fault


def set_fault(
    lab: Lab, target: str, harm: Harm, seconds: float | None = None, flap: tuple[float, float] | None = None
) -> Fault:
    """Do what `fail` does, but leave keeping the time to the caller, see `Timekeeper`."""
    if seconds is not None and not seconds > 0:
        raise UsageError(f"seconds = {seconds:g}: above 0")
    if flap is not None and not (flap[0] > 0 and flap[1] > 0):
        raise UsageError(f"flap = {flap[0]:g}, {flap[1]:g}: two times above 0, in force and not in force")
    links = lab.links_of(target)
    fault = Fault(0, target, {link.name: _side(harm, target, link) for link in links}, harm, flap=flap)
    with opened(lab.name) as ledger:
        _check(lab, ledger, fault, links)
        ledger.last += 1
        fault.number = ledger.last
        try:
            with _applied(lab, ledger, fault.links, keep=True):
                ledger.faults.append(fault)
        except MrcError:
            with contextlib.suppress(MrcError), _applied(lab, ledger, fault.links):
                ledger.faults.remove(fault)
            raise
        fault.since_ns = time.monotonic_ns()
        if seconds is not None:
            fault.until_ns = fault.since_ns + int(seconds * 1e9)
    return fault


def _check(lab: Lab, ledger: Ledger, fault: Fault, links: Iterable[Link]) -> None:
    if hasattr(lab, "apply_lines"):
        return
    for link in links:
        together = [f for f in ledger.faults if link.name in f.links] + [fault]
        lines_of(lab).check(link, compose((f.harm, f.links[link.name]) for f in together))


def heal(lab: Lab, target: str | int | None = None) -> list[Fault]:
    """End faults; returns those that it ended. Idempotent.

    Args:
        lab: the lab.
        target: end the faults that were set on this target, and those that lie wholly inside it. A number: that fault
            alone. None: all.

    Raises:
        UsageError: no such target.
        MrcError: the system refused.
    """
    chosen: Callable[[Fault], bool]
    if target is None:
        chosen = _every
    elif isinstance(target, int):
        chosen = lambda fault: fault.number == target  # noqa: E731
    else:
        names = {link.name for link in lab.links_of(target)}
        chosen = lambda fault: fault.target == target or names.issuperset(fault.links)  # noqa: E731
    with opened(lab.name) as ledger:
        ended = [f for f in ledger.faults if chosen(f)]
        if ended:
            with _applied(lab, ledger, {name for f in ended for name in f.links}):
                ledger.faults = [f for f in ledger.faults if not chosen(f)]
            if not any(f.harm.cuts for f in ledger.faults):
                ledger.saved.clear()
    return ended


def _every(_: Fault) -> bool:
    return True


def switch_on(lab: Lab, number: int, on: bool) -> bool:
    """Put a fault in force or out of it without ending it; returns whether there still is such a fault."""
    with opened(lab.name) as ledger:
        for fault in ledger.faults:
            if fault.number == number:
                with _applied(lab, ledger, fault.links):
                    fault.on = on
                return True
    return False


def active(lab: Lab) -> list[Fault]:
    """Return the faults of a lab, oldest first."""
    with opened(lab.name, change=False) as ledger:
        return list(ledger.faults)


def state_of(ledger: Ledger, link: str) -> LinkState:
    """Return what a ledger says of a link."""
    return compose((f.harm, f.links[link]) for f in ledger.faults if f.on and link in f.links)


def _side(harm: Harm, target: str, link: Link) -> str:
    if harm.end is not None:
        return "a" if harm.end == "lower" else "b"
    return "a" if _SWITCH.fullmatch(target) and link.a_node == target else "b"


@contextlib.contextmanager
def _applied(lab: Lab, ledger: Ledger, links: Iterable[str], *, keep: bool = False) -> Iterator[None]:
    """Bring about what the block changes in the ledger.

    With `keep` the ledger is written first: if this process is killed half-way, the fault is known and can be healed.
    One that heals writes it last, for the same reason.
    """
    names = sorted(links)
    before = {name: state_of(ledger, name) for name in names}
    yield
    by_name = {link.name: link for link in lab.links}
    changes: list[Change] = []
    for name in names:
        after = state_of(ledger, name)
        if after != before[name]:
            changes.append((by_name[name], before[name], after))
    if not changes:
        return
    own: Any = getattr(lab, "apply_lines", None)
    if own is None:
        lines_of(lab).remember(changes, ledger.saved)
    if keep:
        ledger.keep()
    if own is not None:
        own(changes)
    else:
        lines_of(lab).apply(changes, ledger.saved)


class Timekeeper(threading.Thread):
    """Ends a fault at its time and lets it flap; ends early when somebody else heals it, or the lab is gone."""

    def __init__(self, lab: Lab, fault: Fault) -> None:
        """Take over the fault; `start` begins."""
        super().__init__(name=f"fault {fault.number}", daemon=True)
        self._lab, self._fault = lab, fault

    def run(self) -> None:
        """Keep the time."""
        fault, on = self._fault, True
        turn = None if fault.flap is None else fault.since_ns + int(fault.flap[0] * 1e9)
        with contextlib.suppress(UsageError):  # the lab is gone
            while True:
                times = [at for at in (turn, fault.until_ns) if at is not None]
                if not self._wait(min(times)):
                    return
                if fault.until_ns is not None and time.monotonic_ns() >= fault.until_ns:
                    heal(self._lab, fault.number)
                    return
                if turn is not None and fault.flap is not None:
                    on = not on
                    if not switch_on(self._lab, fault.number, on):
                        return
                    turn += int(fault.flap[0 if on else 1] * 1e9)

    def _wait(self, until_ns: int) -> bool:
        """Sleep until then; returns whether the fault is still there."""
        while (left := (until_ns - time.monotonic_ns()) / 1e9) > 0:
            time.sleep(min(left, _POLL_S))
            if left > _POLL_S and all(f.number != self._fault.number for f in active(self._lab)):
                return False
        return True
