"""One role of a yardstick as a process: `python -m softmrc.bench._yard ROLE JSON`.

Prints the line "ready" once its socket is bound (roles that are sent to), then one line of JSON.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from softmrc import _core

_ENDS = ("at", "from")


def _config(text: str) -> dict[str, Any]:
    config: dict[str, Any] = json.loads(text)
    for key in _ENDS:
        if key in config:
            config[key] = tuple(config[key])
    if isinstance(config.get("to"), list):
        to = config["to"]
        config["to"] = [tuple(t) for t in to] if isinstance(to[0], list) else tuple(to)
    return config


def _ready() -> None:
    print("ready", flush=True)


def main(role: str, text: str) -> None:
    """Play a role and print its figures."""
    config = _config(text)
    if role == "send":
        figures = _core.yard_send(config)
    elif role == "receive":
        figures = _core.yard_receive(config, _ready)
    elif role == "duplex":
        figures = _core.yard_duplex(config, _ready)
    elif role == "ping":
        figures = _core.yard_ping(config)
    elif role == "pong":
        figures = _core.yard_pong(config, _ready)
    else:
        raise SystemExit(f"no such role: {role}")
    print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:3])
