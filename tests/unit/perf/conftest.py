"""A server in a thread, with an event loop of its own."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import pytest

from softmrc.perf import Local, Server

PLANES = ("127.0.0.61", "127.0.0.62")


class Running:
    """What the server told so far, and its port."""

    def __init__(self, **options):
        local = {name: options.pop(name) for name in ("progress", "evs", "planes", "icrc") if name in options}
        self.told = []
        self._listening = threading.Event()
        self._server = Server(Local(**{"planes": PLANES, "evs": 4, **local}), 0, tell=self._tell, **options)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._listening.wait(20)

    def _tell(self, what, details):
        self.told.append((what, details))
        if what == "listening":
            self.port = details["port"]
            self._listening.set()

    def _run(self):
        async def main():
            self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
            await self._server.run()

        with contextlib.suppress(asyncio.CancelledError):
            asyncio.run(main())

    def join(self):
        self._thread.join(20)
        return not self._thread.is_alive()

    def stop(self):
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._task.cancel)
            assert self.join()

    def names(self):
        return [what for what, _ in self.told]


@pytest.fixture
def serve():
    running = []

    def start(**options):
        running.append(Running(**options))
        return running[-1]

    yield start
    for server in running:
        server.stop()
