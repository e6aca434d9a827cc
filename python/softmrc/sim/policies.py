"""Path policies and congestion controllers of your own, in Python, for simulations.

    class Alternate(PathPolicy):
        ...
    register_policy("alternate", Alternate)
    simulate(fabric, workload, Mrc(policy="alternate"))

The interfaces are those of the engine's own policies and controllers (core/ev/policy.h, core/cc/controller.h), called
at the same moments. It is slow (a call of Python for every packet) but handy. A name belongs to a process: runs in
other processes need the registration there too, which is what `load_plugins` and a scenario's `plugins` are for. An
exception ends the run and comes out of `simulate` as it is. Sockets do not run Python policies.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from softmrc import _core
from softmrc.errors import UsageError

__all__ = [
    "Controller",
    "PathPolicy",
    "Snapshot",
    "WindowController",
    "blamed",
    "load_plugins",
    "new_controller",
    "new_policy",
    "register_controller",
    "register_policy",
]

Slots = _core.SimSlots
"""EVs of a QP in use, by slot: len, tag(s), port(s), good(s), skip(s), clear_skip(s); below(n) rolls the run's dice."""
Link = _core.SimLink
Ack = _core.SimAck
Nack = _core.SimNack
Loss = _core.SimLoss


class PathPolicy(ABC):
    """In which order the EVs of a QP are used. One object a QP and direction."""

    def reset(self, slots: Slots) -> None:  # noqa: B027 - many have nothing to do here
        """Take note of the slots: at the start, and whenever the set has changed."""

    @abstractmethod
    def next(self, slots: Slots, ports: int, avoid: int | None) -> int | None:
        """Choose the slot of the next packet.

        Args:
            slots: valid during this call only.
            ports: bit N: plane N can take a packet now. Others must not be chosen.
            avoid: EV that this packet was lost or refused on; to be used only if there is no other.

        Returns:
            A slot, or None if none is good: then a spare is taken, or the EV that was marked or bad longest ago.
        """

    def feedback(self, slot: int, signal: str) -> None:  # noqa: B027
        """Hear what became of a packet: "ok", "ecn", "trimmed" or "lost"."""


class Snapshot(NamedTuple):
    """What the engine asks a controller about, bytes and ns. Loss detection uses the RTT and delays."""

    cwnd: int
    inflight: int
    max_wnd: int
    base_rtt_ns: int
    avg_delay_ns: int
    target_delay_ns: int


class Controller(ABC):
    """How many bytes of a QP may be in flight. Sizes are nominal: UDP length + 40 (reference 7)."""

    @abstractmethod
    def __init__(self, config: Mapping[str, Any], link: Link, now_ns: int) -> None:
        """Begin.

        Args:
            config: `Mrc.cc_config`, with 0 for what was not given.
            link: the planes of the QP together.
            now_ns: simulated time.
        """

    @abstractmethod
    def on_send(self, now_ns: int, nominal: int) -> None:
        """A packet leaves."""

    @abstractmethod
    def on_ack(self, event: Ack) -> None:
        """A SACK arrived."""

    @abstractmethod
    def on_nack(self, event: Nack) -> None:
        """A packet was refused, mostly because it was trimmed."""

    @abstractmethod
    def on_loss(self, event: Loss) -> None:
        """A packet was lost."""

    @abstractmethod
    def on_outstanding(self, nominal: int) -> None:
        """Hear the sum of what is in flight: a cap of one's own count; 0 resets it (reference 7.3)."""

    @abstractmethod
    def on_link(self, now_ns: int, link: Link) -> None:
        """A plane came or went."""

    @abstractmethod
    def can_send(self) -> bool:
        """Whether a packet may leave now."""

    @abstractmethod
    def wants_ack(self, nominal: int, peer_sack_bytes: int) -> bool:
        """Whether a packet of `nominal` bytes should ask for a SACK at once (reference 7.6)."""

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """Answer with the present state."""

    def counters(self) -> dict[str, int]:
        """Return counts by name, for statistics."""
        return {}


class WindowController(Controller):
    """Everything but the window: counts bytes in flight, learns the base RTT. Set `window` in the `on_` methods."""

    def __init__(self, config: Mapping[str, Any], link: Link, now_ns: int) -> None:
        self.config = config
        self.inflight = 0
        self.least_rtt_ns: int | None = None
        self._take(link)
        self.window = self.first_window(link)

    def first_window(self, link: Link) -> int:
        """Return the window to begin with: `max_cwnd`, or 1.5 bandwidth-delay products."""
        return max(int(self.config["max_cwnd"]) or int(link.window), int(link.mtu))

    def _take(self, link: Link) -> None:
        self.link = link
        self.base_rtt_ns = int(link.base_rtt_ns)
        if self.least_rtt_ns is not None:
            self.base_rtt_ns = min(self.base_rtt_ns, self.least_rtt_ns)

    def _learn(self, rtt_ns: int | None) -> None:
        if rtt_ns is None:
            return
        seen = max(rtt_ns, int(self.link.min_base_rtt_ns))
        self.least_rtt_ns = seen if self.least_rtt_ns is None else min(self.least_rtt_ns, seen)
        self.base_rtt_ns = min(self.base_rtt_ns, self.least_rtt_ns)

    def on_send(self, now_ns: int, nominal: int) -> None:
        """Count it."""
        self.inflight += nominal

    def on_ack(self, event: Ack) -> None:
        """Count it, and learn the RTT."""
        self.inflight -= event.newly_bytes
        self._learn(event.rtt_ns)

    def on_nack(self, event: Nack) -> None:
        """Count it, and learn the RTT."""
        self.inflight -= event.nominal
        self._learn(event.rtt_ns)

    def on_loss(self, event: Loss) -> None:
        """Count it."""
        self.inflight -= event.nominal

    def on_outstanding(self, nominal: int) -> None:
        """Correct the count."""
        self.inflight = 0 if nominal == 0 else min(self.inflight, nominal)

    def on_link(self, now_ns: int, link: Link) -> None:
        """Take what the planes are like now; the window stays."""
        self._take(link)

    def can_send(self) -> bool:
        """Whether the window is larger than what is in flight."""
        return self.window > self.inflight

    def wants_ack(self, nominal: int, peer_sack_bytes: int) -> bool:
        """Whether the window closes with this packet, or is below what the peer waits for before it answers."""
        return self.window - self.inflight - nominal < self.link.mtu or self.window < peer_sack_bytes

    def snapshot(self) -> Snapshot:
        """Return the present state."""
        return Snapshot(
            self.window, self.inflight, self.window, self.base_rtt_ns, 0, int(self.link.target_delay_ns)
        )


_policies: dict[str, Callable[[], PathPolicy]] = {}
_controllers: dict[str, Callable[[Mapping[str, Any], Link, int], Controller]] = {}
_loaded: dict[Path, str] = {}  # file to digest


def register_policy(name: str, factory: Callable[[], PathPolicy]) -> None:
    """Make a path policy known as `Mrc.policy`. A name of Python's may be registered again: the last one counts.

    Args:
        name: none of the engine's own.
        factory: called for each QP and direction, for instance the class.

    Raises:
        UsageError: an empty name, or one of the engine's own.
    """
    _register(name, _policies, factory, _core.register_policy, "path policy")


def register_controller(name: str, factory: Callable[[Mapping[str, Any], Link, int], Controller]) -> None:
    """Make a congestion controller known as `Mrc.cc`; as `register_policy`."""
    _register(name, _controllers, factory, _core.register_controller, "controller")


def _register(
    name: str, known: dict[str, Any], factory: Callable[..., Any], tell: Callable[[str], None], what: str
) -> None:
    if not name:
        raise UsageError(f"a {what} needs a name")
    if name not in known:
        try:
            tell(name)
        except OSError:
            raise UsageError(f"{what} {name!r} is one of the engine's own; take another name") from None
    known[name] = factory


def new_policy(name: str) -> PathPolicy:
    """Make a policy; the engine calls it.

    Raises:
        UsageError: the factory made something else.
    """
    made = _policies[name]()
    if not isinstance(made, PathPolicy):
        raise UsageError(f"path policy {name!r}: its factory made a {type(made).__name__}, no PathPolicy")
    return made


def new_controller(name: str, config: Mapping[str, Any], link: Link, now_ns: int) -> Controller:
    """Make a controller; the engine calls it.

    Raises:
        UsageError: the factory made something else.
    """
    made = _controllers[name](config, link, now_ns)
    if not isinstance(made, Controller):
        raise UsageError(f"controller {name!r}: its factory made a {type(made).__name__}, no Controller")
    return made


def load_plugins(paths: Iterable[str | Path]) -> None:
    """Import files that register policies and controllers, each once a process unless it has changed.

    Args:
        paths: of Python files. They are code: load none you would not run.

    Raises:
        UsageError: one cannot be read, or raises; the text names the error.
    """
    for path in paths:
        file = Path(path).resolve()
        try:
            digest = hashlib.sha256(file.read_bytes()).hexdigest()
        except OSError as e:
            raise UsageError(f"cannot read plugin {path}: {e.strerror}") from None
        if _loaded.get(file) == digest:
            continue
        spec = importlib.util.spec_from_file_location(f"softmrc_plugin_{digest[:16]}", file)
        if spec is None or spec.loader is None:
            raise UsageError(f"plugin {path}: a Python file ends in .py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        try:
            spec.loader.exec_module(module)
        except Exception as e:
            del sys.modules[spec.name]
            raise UsageError(f"plugin {path}{_line_of(e, file)}: {type(e).__name__}: {e}") from e
        _loaded[file] = digest


def _line_of(error: BaseException, file: Path) -> str:
    """Return ", line N" for where in a file an error comes from; nothing if it passed none of its lines."""
    if isinstance(error, SyntaxError):
        return f", line {error.lineno}"
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(file)]
    return f", line {lines[-1]}" if lines else ""


def blamed(error: Exception) -> UsageError | None:
    """Return what to tell a user whose plugin raised in a run: file, line and error; None if no plugin took part."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if Path(frame.filename) in _loaded:
            text = str(error) or "no text"
            return UsageError(
                f"plugin {frame.filename}, line {frame.lineno}, in {frame.name}: {type(error).__name__}: {text}"
            )
    return None
