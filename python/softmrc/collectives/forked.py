"""What a forked child does with meshes of its parent: keep them for ever, and say nothing of it when it exits.

Their threads do not exist in the child and their sockets are the parent's, so no destructor of theirs may run there.
"""

from __future__ import annotations

from softmrc import _core

__all__ = ["keep_for_ever"]

_kept: list[object] = []


def keep_for_ever(meshes: list[object]) -> None:
    """Hold these until the process ends; the compiled module does not report them as leaks."""
    if meshes:
        _kept.extend(meshes)
        _core.set_leak_warnings(False)
