"""Helper processes of the rows about a host: idle connections, and a busy core.

`python -m softmrc.bench._idle serve ADDRESS PORT COUNT`, `... dial OWN ADDRESS PORT COUNT`, `... burn`.
"""

from __future__ import annotations

import sys
import threading

from softmrc.endpoint import Endpoint


def _say(text: str) -> None:
    print(text, flush=True)


def serve(address: str, port: int, count: int) -> None:
    """Accept `count` connections and keep them."""
    with Endpoint(address) as ep, ep.listen(address, port) as listener:
        _say("listening")
        kept = [listener.accept(60) for _ in range(count)]
        _say("connected")
        threading.Event().wait()
        del kept


def dial(own: str, address: str, port: int, count: int) -> None:
    """Make `count` connections and keep them."""
    with Endpoint(own) as ep:
        kept = [ep.connect_sync(address, port, timeout=30) for _ in range(count)]
        _say("connected")
        threading.Event().wait()
        del kept


def burn() -> None:
    """Keep a core busy."""
    while True:
        pass


def main(role: str, *args: str) -> None:
    """Play a role until killed."""
    if role == "serve":
        serve(args[0], int(args[1]), int(args[2]))
    elif role == "dial":
        dial(args[0], args[1], int(args[2]), int(args[3]))
    elif role == "burn":
        burn()
    else:
        raise SystemExit(f"no such role: {role}")


if __name__ == "__main__":
    main(*sys.argv[1:])
