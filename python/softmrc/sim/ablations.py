"""Transports by name: "mrc", "mrc:no-trimming", "rocev2:16qp-nopfc", "tcp:dctcp".

A name is a transport and, behind a colon, options joined by "+" ("mrc:no-trimming+8qp"; baselines also take "-"). The
options of MRC are its ablations, each switching one idea off: docs/sim-ablations.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from softmrc.errors import UsageError
from softmrc.sim.transports import Mrc, Rocev2, Tcp, Transport

__all__ = ["ABLATIONS", "changes_of", "transport_names", "transport_of"]

_CHANGES: dict[str, dict[str, Any]] = {
    "no-trimming": {"trimming": False},
    "no-ecn-steering": {"ecn_steering": False},
    "no-demotion": {"demotion": False},
    "oblivious": {"policy": "oblivious", "ecn_steering": False, "demotion": False},
    "fixed-ev": {"fixed_ev": True},
    "any-plane": {"replace_any_plane": True},
    "no-fast-loss": {"fast_loss": False},
    "fixed-reverse-ev": {"fixed_reverse_ev": True},
}

ABLATIONS: Mapping[str, Mrc] = MappingProxyType({name: Mrc(**change) for name, change in _CHANGES.items()})
"""Name of an ablation to MRC with it and defaults otherwise."""

_OPTIONS: dict[str, dict[str, dict[str, Any]]] = {
    "mrc": _CHANGES,
    "rocev2": {"nopfc": {"pfc": False}, "nodcqcn": {"dcqcn": False}},
    "tcp": {"cubic": {"cc": "cubic"}, "dctcp": {"cc": "dctcp"}},
}
_CLASSES: dict[str, type[Mrc] | type[Rocev2] | type[Tcp]] = {"mrc": Mrc, "rocev2": Rocev2, "tcp": Tcp}
_QPS = re.compile(r"([1-9][0-9]{0,3})qp")


def changes_of(name: str) -> tuple[str, dict[str, Any]]:
    """Return the transport's own name and the members that the options set.

    Args:
        name: for instance "mrc", "mrc:oblivious+8qp" or "rocev2:16qp-nopfc".

    Raises:
        UsageError: no such transport or option, or two options that set one member to different values.
    """
    kind, colon, rest = name.partition(":")
    if kind not in _OPTIONS:
        raise UsageError(f"no transport {kind!r}; there is {', '.join(_OPTIONS)}")
    words = re.split(r"\+" if kind == "mrc" else r"[+-]", rest) if colon else []
    made: dict[str, Any] = {}
    for word in words:
        count = _QPS.fullmatch(word)
        if count is None and word not in _OPTIONS[kind]:
            options = ", ".join([*_OPTIONS[kind], "<n>qp"])
            raise UsageError(f"transport {name!r}: no option {word!r} of {kind}; there is {options}")
        for key, value in ({"qps": int(count[1])} if count else _OPTIONS[kind][word]).items():
            if made.setdefault(key, value) != value:
                raise UsageError(f"transport {name!r}: two options set {key}")
    return kind, made


def transport_of(name: str, **settings: Any) -> Transport:
    """Return a transport by its name.

    Args:
        name: as for `changes_of`.
        settings: other members of the transport's class; the name's options win.

    Raises:
        UsageError: as for `changes_of`, or a member is out of range.
    """
    kind, made = changes_of(name)
    return _CLASSES[kind](**{**settings, **made})


def transport_names() -> list[str]:
    """Return every transport alone and with each of its options."""
    return [name for kind, options in _OPTIONS.items() for name in (kind, *(f"{kind}:{o}" for o in options))]
