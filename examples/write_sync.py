"""Writes into the memory of a peer over two planes of this machine, without an event loop.

Run: .venv/bin/python examples/write_sync.py
"""

from __future__ import annotations

import softmrc as mrc


def main() -> None:
    """Both ends live in this process; in real use each has its own."""
    data = bytes(range(256)) * 4096
    buffer = bytearray(len(data))
    with mrc.Endpoint("127.0.0.3", "127.0.0.4") as far, mrc.Endpoint("127.0.0.1", "127.0.0.2") as near:
        listener = far.listen(expose=buffer, token="example")
        conn = near.connect_sync("127.0.0.3", listener.port, token="example")
        peer = listener.accept(timeout=10)
        conn.write(data, conn.remote_window_sync(timeout=10), imm=7).wait(timeout=30)
        note = peer.recv_notification(timeout=10)
        print(f"immediate {note.imm}: {note.length} bytes arrived, equal: {bytes(buffer) == data}")
        for path in conn.stats().paths:
            print(path)


if __name__ == "__main__":
    main()
