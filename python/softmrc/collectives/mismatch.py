"""What to say when two ranks met in one collective without having called the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from softmrc.collectives.calls import Collective, describe, read_print

__all__ = ["mismatch_text"]

_ADVICE = "every rank of a group must make the same calls with the same sizes in the same order"


def mismatch_text(failure: Mapping[str, Any], rank: int, peer: int, names: Sequence[str]) -> str:
    """In words, the same whichever of the two notices.

    Args:
        failure: of the runner: `ours` and `theirs`, prints of calls, or lengths of messages where those agree.
        rank: this one, in the group.
        peer: the other.
        names: of all ranks, for texts.
    """
    ours, theirs = int(failure.get("ours", 0)), int(failure.get("theirs", 0))
    pairs = sorted(((rank, ours), (peer, theirs)))
    mine, call = read_print(ours), read_print(theirs)
    if mine is None or call is None:
        said = " and ".join(f"{names[who]} with {value:,}" for who, value in pairs)
        return f"ranks differ about the bytes of a message: {said}; {_ADVICE}"
    if mine.collective == call.collective == Collective.ALL_TO_ALL_V:
        first, second = names[pairs[0][0]], names[pairs[1][0]]
        return (
            f"uneven all_to_all: {first} and {second} differ about how many bytes pass between them; what one sends "
            "must be what the other expects"
        )
    said = " and ".join(f"{names[who]} called {describe(value)}" for who, value in pairs)
    return f"ranks called different collectives: {said}; {_ADVICE}"
