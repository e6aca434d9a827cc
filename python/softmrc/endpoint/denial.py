"""Keeps queue pairs off the paths that a fabric's denylist names, and lets them back when it no longer does.

Decides which EVs are DENIED; the list is written by others (`softmrc lab locate --deny`). The last plane of a
connection is never denied: where the list leaves none, the plane that loses least stays. EVs that somebody else has
denied (`softmrc.ctl`) are left alone as long as the list does not name them.
"""

from __future__ import annotations

import errno
import logging
import threading
import weakref
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from softmrc.device import refusals
from softmrc.errors import MrcError, UsageError, VerbsError
from softmrc.srv6 import Denylist
from softmrc.types import EvState
from softmrc.verbs import QP

if TYPE_CHECKING:
    from softmrc.endpoint.steering import Ways

__all__ = ["Denial", "choose"]

_LOOK_SECONDS = 0.5
_log = logging.getLogger("softmrc.paths")
_Path = tuple[int, int]


def choose(denylist: Denylist, ways: Ways, evs: Collection[_Path]) -> set[_Path]:
    """Return the EVs that a denylist forbids a queue pair.

    Args:
        denylist: what is denied.
        ways: of its connection.
        evs: those it has, by local plane and number.
    """
    worst: dict[_Path, float] = {}
    for plane, ev in evs:
        path = ways.paths.get((plane, ev))
        if path is not None:
            src, dst = ways.hosts[plane]
            loss = denylist.worst(path.plane, src, path.switches, dst)
            if loss is not None:
                worst[plane, ev] = loss
    if len(worst) < len(evs):
        return set(worst)
    least = min(worst.values(), default=0.0)
    kept = {plane for (plane, _), loss in worst.items() if loss == least}
    return {(plane, ev) for plane, ev in worst if plane not in kept}


@dataclass
class _Pair:
    """A queue pair: its ways, its EVs, and those that are denied."""

    ways: Ways
    evs: frozenset[_Path]
    denied: set[_Path] = field(default_factory=set)


class Denial:
    """The denylist of an endpoint's fabric and the queue pairs that follow it."""

    def __init__(self, file: Path | None) -> None:
        """Keep where the list is; None: the fabric is not known, nothing is ever denied."""
        self._file = file
        self._lock = threading.Lock()
        self._pairs: weakref.WeakKeyDictionary[QP, _Pair] = weakref.WeakKeyDictionary()
        self._list = Denylist()
        self._seen: tuple[int, int, int] | None = None
        self._next = 0.0

    def watch(self, qp: QP, ways: Ways) -> None:
        """Let a queue pair, which has its paths, follow the list from now on; any thread."""
        if self._file is None or not ways.paths:
            return
        self._look(self._file)
        evs = frozenset((p["plane"], p["ev"]) for p in qp.path_stats())
        with self._lock:
            self._pairs[qp] = _Pair(ways, evs)
            self._apply(qp)

    def tick(self, now: float) -> None:
        """Look whether the list has changed, every half second; endpoint's thread.

        Args:
            now: seconds of any clock.
        """
        if self._file is None or now < self._next:
            return
        self._next = now + _LOOK_SECONDS
        if self._look(self._file):
            with self._lock:
                for qp in list(self._pairs):
                    self._apply(qp)

    def _look(self, file: Path) -> bool:
        """Read the list if it has changed; one that cannot be read changes nothing."""
        try:
            stat = file.stat()
            seen = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
        except OSError:
            seen = (0, 0, 0)
        with self._lock:
            if seen == (self._seen or (0, 0, 0)):
                return False
            self._seen = seen
            try:
                self._list = Denylist.read(file)
            except UsageError as error:
                _log.warning("%s; what was denied before stays so", error)
                return False
        names = ", ".join(sorted(self._list.denied)) or "nothing"
        _log.info("the fabric denies %s", names)
        return True

    def _apply(self, qp: QP) -> None:
        pair = self._pairs[qp]
        after = choose(self._list, pair.ways, pair.evs)
        for _, ev in sorted(after - pair.denied):
            _tell(qp, ev, EvState.DENIED)
        for _, ev in sorted(pair.denied - after):
            _tell(qp, ev, EvState.GOOD)
        pair.denied = after


def _tell(qp: QP, ev: int, state: EvState) -> None:
    if qp.closed:
        return
    try:
        with refusals("deny an EV"):
            qp.ctx.driver.set_ev_state(qp.qp_num, ev, int(state))
    except VerbsError as error:
        # It has not taken this EV, or is gone.
        if error.errno not in (errno.ENOENT, errno.EINVAL):
            _log.warning("denylist: %s", error)
    except MrcError as error:  # the endpoint is failing; its connections say so
        _log.debug("denylist: %s", error)
