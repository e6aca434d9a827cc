"""What the kernel can do for SRv6, tried where it leaves no trace: in a network namespace of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass

__all__ = ["Srv6", "try_srv6"]

_SECONDS = 5.0
# Each with the words `ip -6 route show` has for it once the kernel took it.
_ROUTES = (
    ("fd00:1::/48 encap seg6 mode encap segs fd00::1 dev lo", "encap seg6 "),
    ("fd00:2::/48 encap seg6local action End dev lo", "action End dev"),
    (
        "fd00:3::/48 encap seg6local action End flavors next-csid lblen 32 nflen 16 dev lo",
        "next-csid",
    ),
)


@dataclass(frozen=True)
class Srv6:
    """Outcome of the attempt; None: it could not be made, `why` says what stood in the way."""

    encap: bool | None = None
    """Routes that add segments (H.Encaps)."""
    end: bool | None = None
    """Routes that take the next segment."""
    next_csid: bool | None = None
    """Routes that shift the next uSID into place."""
    why: str = ""


def try_srv6() -> Srv6:
    """Add one route of each kind in a fresh network namespace, which ends with the command."""
    tools = [shutil.which(name) for name in ("unshare", "ip", "sh")]
    if not all(tools):
        return Srv6(why="needs the commands unshare and ip")
    script = "ip link set lo up || exit 9; "
    script += "".join(f"ip -6 route add {route} 2>/dev/null; " for route, _ in _ROUTES)
    script += "ip -6 route show"
    root = [] if os.geteuid() == 0 else ["--map-root-user"]
    command = ["unshare", *root, "--net", "sh", "-c", script]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        return Srv6(why=str(error))
    if done.returncode != 0:
        first = (done.stderr.strip().splitlines() or ["no reason given"])[0]
        return Srv6(why=f"no network namespace to try in: {first}")
    encap, end, next_csid = (words in done.stdout for _, words in _ROUTES)
    return Srv6(encap, end, next_csid)
