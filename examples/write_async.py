"""The same with asyncio: a stream of writes, and notifications as they arrive.

Run: .venv/bin/python examples/write_async.py
"""

from __future__ import annotations

import asyncio

import softmrc as mrc

COUNT, SIZE = 8, 64 * 1024


async def receive(server: mrc.Listener) -> None:
    """Prints the notifications of the first peer."""
    conn = await server.accept_async()
    for _ in range(COUNT):
        note = await conn.recv_notification_async()
        print(f"block {note.imm} is in place")


async def main() -> None:
    """Sends eight blocks, all in flight at once."""
    buffer = bytearray(COUNT * SIZE)
    async with (
        mrc.Endpoint("127.0.0.3", "127.0.0.4") as far,
        mrc.Endpoint("127.0.0.1", "127.0.0.2") as near,
        far.listen(expose=buffer) as server,
    ):
        receiver = asyncio.create_task(receive(server))
        conn = await near.connect("127.0.0.3", server.port)
        window = await conn.remote_window()
        blocks = [bytes([i]) * SIZE for i in range(COUNT)]
        transfers = [conn.write(b, window, offset=i * SIZE, imm=i) for i, b in enumerate(blocks)]
        for transfer in transfers:
            await transfer
        await receiver
    print("equal:", bytes(buffer) == b"".join(blocks))


if __name__ == "__main__":
    asyncio.run(main())
