"""Failures on loopback: what the built-in impairments of a rank's own endpoint must do to look like them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from softmrc.verbs import Rule

__all__ = ["rules_for"]

_LOSS = 0.05
_QUEUE_SECONDS = 0.01  # of a plane's queue, at its rate
_MARK_SHARE = 0.2  # of that queue: beyond it packets are marked


def rules_for(told: Sequence[Mapping[str, Any]], evs: Mapping[int, Sequence[int]]) -> list[Rule]:
    """Return the rules of one endpoint.

    Args:
        told: from `LoopbackPlace.rules`.
        evs: paths of each plane; every `t1s`-th one leads over the same T1.
    """
    found: list[Rule] = []
    for one in told:
        if one["kind"] == "rate":
            queue = int(one["bps"] / 8 * _QUEUE_SECONDS)
            found.append(
                Rule(
                    plane=one["plane"],
                    direction="tx",
                    rate_bps=one["bps"],
                    queue_bytes=queue,
                    ecn_bytes=int(queue * _MARK_SHARE),
                )
            )
            continue
        span: dict[str, Any] = {"start": one["from"], "stop": one["until"]}
        if one["kind"] in ("T1 reboot", "5 % loss"):
            harm: dict[str, Any] = {"down": True} if one["kind"] == "T1 reboot" else {"drop": _LOSS}
            over_it = [ev for i, ev in enumerate(evs[one["plane"]]) if i % one["t1s"] == one["t1"]]
            found += [Rule(plane=one["plane"], ev=ev, direction="tx", **harm, **span) for ev in over_it]
        else:
            found.append(Rule(plane=one["plane"], down=True, **span))
    return found
