"""Changes of a scenario by dotted key, where a transport's name may carry options.

`{"transport.name": "mrc:no-trimming+8qp"}` means the transport `mrc` with two of its members set: other changes of the
same members win.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from softmrc.sim.ablations import changes_of

__all__ = ["expanded", "label_of"]

_NAME = "transport.name"


def expanded(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes with the options of a transport's name as changes of their own.

    Raises:
        UsageError: no such transport or option.
    """
    name = overrides.get(_NAME)
    if not isinstance(name, str):
        return dict(overrides)
    kind, members = changes_of(name)
    options = {f"transport.{key}": value for key, value in members.items()}
    return {**options, **overrides, _NAME: kind}


def label_of(overrides: Mapping[str, Any]) -> str:
    """Return the transport's name as it was given, options and all; empty if the changes do not name one."""
    name = overrides.get(_NAME, "")
    return name if isinstance(name, str) else ""
