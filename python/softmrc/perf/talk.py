"""The conversation of a measurement, over the set-up channel of the simple level: who may, and what is next.

While one end waits for a word, its transport must go on: `next` takes something to do meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from softmrc.endpoint.handshake import Handshake
from softmrc.errors import PeerError

__all__ = ["Talk"]

_TURNS = 3


class Talk:
    """Steps to and from one peer, after hellos and proofs."""

    def __init__(self, shake: Handshake) -> None:
        """Take over a handshake that is open; a task reads from now on."""
        self._shake = shake
        self._inbox: asyncio.Queue[dict[str, Any] | PeerError] = asyncio.Queue(maxsize=8)
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        while True:
            try:
                message = await self._shake.recv("perf")
            except PeerError as error:
                await self._inbox.put(error)
                return
            await self._inbox.put(message)

    async def send(self, step: str, **members: Any) -> None:
        """Send one step."""
        await self._shake.send({"type": "perf", "step": step, **members})

    async def refuse(self, why: str) -> None:
        """Tell the peer why not; does not raise."""
        await self._shake.tell_error("perf", why)

    async def next(
        self, *steps: str, meanwhile: Callable[[], None] | None = None, timeout: float | None = None
    ) -> Mapping[str, Any]:
        """Return the next step of the peer.

        Args:
            steps: those that may come; none: whatever comes is an error.
            meanwhile: called again and again until it is there; must come back soon.
            timeout: seconds; None: for ever.

        Raises:
            PeerError: another step came, the peer left, or it said nothing in time.
        """
        if meanwhile is None:
            try:
                message = await asyncio.wait_for(self._inbox.get(), timeout)
            except TimeoutError:
                raise PeerError(f"the peer said nothing for {timeout:g} s") from None
        else:
            end = time.monotonic() + timeout if timeout is not None else math.inf
            while await self.quiet():
                if time.monotonic() > end:
                    raise PeerError(f"the peer said nothing for {timeout:g} s")
                meanwhile()
            message = self._inbox.get_nowait()
        if isinstance(message, PeerError):
            raise message
        step = message.get("step")
        if not isinstance(step, str) or step not in steps:
            wanted = " or ".join(steps) or "nothing"
            raise PeerError(f"the peer came out of step: {str(step)[:32]!r} where {wanted} was due")
        return message

    async def quiet(self) -> bool:
        """Give the channel a moment; True while there is no step to take."""
        for _ in range(_TURNS):
            if not self._inbox.empty():
                return False
            await asyncio.sleep(0)
        return self._inbox.empty()

    async def close(self) -> None:
        """Stop reading."""
        self._reader.cancel()
        with contextlib.suppress(asyncio.CancelledError, PeerError):
            await self._reader
