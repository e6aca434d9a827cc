"""What goes wrong on a link: silent holes and random loss, set and cleared in one step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from softmrc.errors import UsageError
from softmrc.netns.space import Namespace

__all__ = ["Hole", "Loss", "cut", "lossy"]

_STEPS = 1_000_000


@dataclass
class _IngressRule:
    """One rule at the ingress of a link; both ends of the link stay up and know nothing."""

    space: Namespace
    dev: str
    _set: bool = False

    def _load(self, kind: str, rule: str) -> None:
        self.clear()
        self.space.nft(
            f"table netdev {kind}_{self.dev} {{\nchain drops {{\n"
            f"type filter hook ingress device {self.dev} priority 0\n{rule}\n}}\n}}\n"
        )
        self._table = f"{kind}_{self.dev}"
        self._set = True

    def clear(self) -> None:
        """Take the rule away; nothing happens without one."""
        if self._set:
            self.space.nft(f"delete table netdev {self._table}\n")
            self._set = False


class Hole(_IngressRule):
    """Everything that arrives on a link vanishes, and nobody is told."""

    def set(self) -> None:
        """Open the hole."""
        self._load("hole", "drop")


class Loss(_IngressRule):
    """What arrives on a link vanishes at random."""

    def set(self, share: float) -> None:
        """Lose this share of the packets, 0.000001 to 1. A segmented burst counts as one packet."""
        parts = round(share * _STEPS)
        if not 1 <= parts <= _STEPS:
            raise UsageError(f"a share of packets is 0.000001 to 1, not {share:g}")
        chance = f"numgen random mod {_STEPS} < {parts} " if parts < _STEPS else ""
        self._load("loss", f"{chance}counter drop")


@contextmanager
def cut(space: Namespace, *devs: str) -> Iterator[None]:
    """Silent holes on links, for as long as the block runs."""
    with ExitStack() as stack:
        for dev in devs:
            hole = Hole(space, dev)
            stack.callback(hole.clear)
            hole.set()
        yield


@contextmanager
def lossy(space: Namespace, share: float, *devs: str) -> Iterator[None]:
    """Random loss on links, for as long as the block runs."""
    with ExitStack() as stack:
        for dev in devs:
            loss = Loss(space, dev)
            stack.callback(loss.clear)
            loss.set(share)
        yield
