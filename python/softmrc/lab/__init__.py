"""A multi-plane SRv6 fabric on this host: hosts and switches as namespaces, the kernel's own forwarding between them.

Decides what stands in the kernel and that nothing of it stays; leaves traffic to the programs in its hosts, and
numbering to `softmrc.srv6`.
"""

from __future__ import annotations

from softmrc.lab.lab import Lab
from softmrc.lab.names import Link
from softmrc.lab.spec import LabSpec

__all__ = ["Lab", "LabSpec", "Link"]
