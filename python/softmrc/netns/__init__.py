"""Networks of this host's own: namespaces, veth links, rates and faults, gone when their owner is.

Decides how namespaces are named, wired, slowed down, broken and cleaned up; leaves what runs in them to its
users. Needs root, `ip`, `nft` and the package pyroute2; `missing` names what is not there.
"""

from __future__ import annotations

from softmrc.netns.fabric import Fabric
from softmrc.netns.faults import Hole, Loss, cut, lossy
from softmrc.netns.host import missing, require
from softmrc.netns.space import Namespace
from softmrc.netns.sweep import sweep

__all__ = ["Fabric", "Hole", "Loss", "Namespace", "cut", "lossy", "missing", "require", "sweep"]
