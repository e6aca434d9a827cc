"""What to say when two ranks met in one collective without having called the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from softmrc.collectives.calls import Collective, describe, read_print

__all__ = ["differing_calls", "mismatch_text"]

_ADVICE = "every rank of a group must make the same calls with the same sizes in the same order"
_MOST_NAMES = 8


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
    if mine is None and call is None:
        said = " and ".join(f"{names[who]} with {value:,}" for who, value in pairs)
        return f"ranks differ about the bytes of a message: {said}; {_ADVICE}"
    if mine is None or call is None:
        said = " and ".join(
            f"{names[who]} called {describe(value) if read_print(value) else 'something else'}"
            for who, value in pairs
        )
        return f"ranks called different collectives: {said}; {_ADVICE}"
    if mine.collective == call.collective == Collective.ALL_TO_ALL_V:
        first, second = names[pairs[0][0]], names[pairs[1][0]]
        return (
            f"uneven all_to_all: {first} and {second} differ about how many bytes pass between them; what one sends "
            "must be what the other expects"
        )
    said = " and ".join(f"{names[who]} called {describe(value)}" for who, value in pairs)
    return f"ranks called different collectives: {said}; {_ADVICE}"


def differing_calls(prints: Mapping[int, Mapping[int, int]], name: Callable[[int], str]) -> str:
    """In words, in which call ranks differ first, and who called what; empty when they differ in none.

    Args:
        prints: by rank, what its newest calls were, by number.
        name: a rank in words.
    """
    for number in sorted({number for calls in prints.values() for number in calls}):
        who: dict[int, list[int]] = {}
        for rank in sorted(prints):
            if number in prints[rank]:
                who.setdefault(prints[rank][number], []).append(rank)
        if len(who) > 1:
            said = ", ".join(
                f"{_listed(ranks, name)} called {describe(value)}" for value, ranks in who.items()
            )
            return f"ranks called different collectives: {said}; {_ADVICE}"
    return ""


def _listed(ranks: Sequence[int], name: Callable[[int], str]) -> str:
    if len(ranks) > _MOST_NAMES:
        return f"{', '.join(map(name, ranks[:_MOST_NAMES]))} and {len(ranks) - _MOST_NAMES} more"
    *first, last = map(name, ranks)
    return f"{', '.join(first)} and {last}" if first else last
