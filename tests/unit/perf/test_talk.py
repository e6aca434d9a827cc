"""A peer that vanishes without a word is given up, also while our transport goes on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from softmrc.errors import PeerError
from softmrc.perf.talk import Talk


class Mute:
    """A channel on which nothing ever comes."""

    async def recv(self, kind: str) -> dict[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError

    async def send(self, message: dict[str, Any]) -> None:
        del message


@pytest.mark.parametrize("driving", [True, False])
def test_silence_ends(driving: bool) -> None:
    turns = []

    async def wait() -> None:
        talk = Talk(Mute())  # type: ignore[arg-type]
        try:
            await talk.next("report", meanwhile=(lambda: turns.append(1)) if driving else None, timeout=0.05)
        finally:
            await talk.close()

    with pytest.raises(PeerError, match=r"said nothing for 0\.05 s"):
        asyncio.run(wait())
    assert bool(turns) == driving
