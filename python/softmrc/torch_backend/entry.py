"""What torch calls at the end of every `import torch`: it learns that a backend named "mrc" exists.

Runs in programs that never heard of this package, so it imports nothing, costs microseconds and never raises. The
process group itself is fetched when the first one is made.
"""

from __future__ import annotations

import sys

__all__ = ["load"]

_NAME = "mrc"


def load() -> None:
    """Register the backend with torch.distributed if that is there; do nothing otherwise."""
    c10d = sys.modules.get("torch.distributed.distributed_c10d")
    backend = getattr(c10d, "Backend", None)
    if backend is None or _NAME.upper() in getattr(backend, "_plugins", {}):
        return
    try:
        # A device that already has a backend (gloo, nccl) keeps it as its default.
        backend.register_backend(_NAME, _create, extended_api=True, devices=["cpu", "cuda"])
    except Exception:
        # A torch with another interface: `import softmrc.torch` says so, `import torch` must not fail.
        return


def _create(options: object, backend_options: object) -> object:
    """Make the process group of one call of `init_process_group` or `new_group`."""
    from softmrc.torch_backend.create import create

    return create(options, backend_options)
