"""Collectives over MRC: reductions and moves among ranks, on the caller's own memory.

`init` makes the group of all ranks of a program; a `Group` has the calls. `Mesh` is the layer below: ranks that reach
each other. Names are fetched when they are first used. The algorithms are `softmrc.collectives.algorithms`, and
`softmrc.collectives.interpreter` runs their programs in plain Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from softmrc.collectives.buffers import Buffer, as_buffer
    from softmrc.collectives.dtypes import DType, Op, dtype_named
    from softmrc.collectives.group import Group
    from softmrc.collectives.letters import Letter
    from softmrc.collectives.mesh import Mesh
    from softmrc.collectives.start import init
    from softmrc.collectives.store import LocalStore, Store, TcpStore
    from softmrc.collectives.tuning import Tuning, override
    from softmrc.collectives.work import Work

__all__ = [
    "Buffer",
    "DType",
    "Group",
    "Letter",
    "LocalStore",
    "Mesh",
    "Op",
    "Store",
    "TcpStore",
    "Tuning",
    "Work",
    "as_buffer",
    "dtype_named",
    "init",
    "override",
]

_HOMES = {
    "Buffer": "buffers",
    "DType": "dtypes",
    "Group": "group",
    "Letter": "letters",
    "LocalStore": "store",
    "Mesh": "mesh",
    "Op": "dtypes",
    "Store": "store",
    "TcpStore": "store",
    "Tuning": "tuning",
    "Work": "work",
    "as_buffer": "buffers",
    "dtype_named": "dtypes",
    "init": "start",
    "override": "tuning",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{home}"), name)
