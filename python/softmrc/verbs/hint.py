"""Traffic hints (mrc_create_qp_hint).

Advice that queue pairs may share; it changes nothing that is promised.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import TYPE_CHECKING

from softmrc.device import Resource
from softmrc.errors import VerbsError

if TYPE_CHECKING:
    from softmrc.verbs.context import Context

__all__ = ["QPHint"]


class QPHint(Resource):
    """How many queue pairs and peers send together."""

    def __init__(
        self, ctx: Context, qps_per_peer: int = 1, peers: int = 1, incast: int = 1, vendor: bytes = b""
    ) -> None:
        """Make a hint.

        Args:
            ctx: the device.
            qps_per_peer: queue pairs to one peer that send together.
            peers: peers sent to at once.
            incast: remote queue pairs that target the same peer at once.
            vendor: up to 128 bytes, kept and not interpreted.

        Raises:
            VerbsError: EINVAL, a count below 1 or too many vendor bytes.
        """
        ctx._require_open()
        self.users = 0
        self.qps_per_peer = self.peers = self.incast = 1
        self.vendor = b""
        self.modify(qps_per_peer=qps_per_peer, peers=peers, incast=incast, vendor=vendor)
        self._open(ctx)

    def modify(
        self,
        *,
        qps_per_peer: int | None = None,
        peers: int | None = None,
        incast: int | None = None,
        vendor: bytes | None = None,
    ) -> None:
        """Change what is given; EINVAL as on creation, then nothing changes."""
        counts = {"qps_per_peer": qps_per_peer, "peers": peers, "incast": incast}
        if any(v is not None and not 1 <= v < 1 << 32 for v in counts.values()):
            raise VerbsError(errno.EINVAL, "QP hint: counts are 1 to 2^32 - 1")
        if vendor is not None and len(vendor) > 128:
            raise VerbsError(errno.EINVAL, "QP hint: at most 128 vendor bytes")
        for name, value in counts.items():
            if value is not None:
                setattr(self, name, value)
        if vendor is not None:
            self.vendor = vendor

    def hold(self) -> Callable[[], None]:
        """A queue pair uses it; call what is returned when it does no more."""
        self._require_open()
        self.users += 1

        def release() -> None:
            self.users -= 1

        return release

    def _release(self) -> None:
        if self.users:
            raise VerbsError(errno.EBUSY, "destroy QP hint: queue pairs use it")
