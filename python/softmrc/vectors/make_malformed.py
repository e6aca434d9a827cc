"""Writes malformed.json: packets and configurations to refuse, and the near misses to accept.

Built with the independent model, so that the engine is checked against something else than itself. Run it as
`python -m softmrc.vectors.make_malformed OUT.json`; the result depends on nothing but this file.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

from softmrc.vectors import malformed_config, malformed_packets
from softmrc.wire.frames import DSCP

__all__ = ["build", "main"]

_CONVENTIONS: Final = [
    "Same schema as vectors.json; every entry carries expect.",
    "expect.result drop: reason is the first failing check of section 2.17, in its order. Reasons beyond "
    "that table: fragment (an IP fragment), not_mrc_port (UDP destination port is neither 4791 nor 4971), "
    "not_udp (an IP version or protocol that carries no MRC).",
    "expect.result nack: the refusal the receiver sends; nack_reason, nack_psn, tx_timestamp and, where the "
    "entry has an IP header, entropy.",
    "expect.result error: layer EV_EXPANSION, a rule of section 4.4; reason is the errno name.",
    "expect.result ok: must be kept, although it looks odd.",
    "context: what the receiver knows. qps lists its queue pairs: qpn, p_key (default 0xFFFF), peer (its "
    "address; not checked when absent), cack_psn and mpr (when given, PSNs beyond the window are refused). "
    "dscp: numbers of the traffic classes. Without context: QPNs 18 and 33, any peer.",
    "layer IB has no IP header and no iCRC, so checks 3, 4 and 11 do not apply to it.",
    "A datagram cut behind BTH has no iCRC: bad_icrc, as check 1 asks only for IP, UDP and BTH.",
]


def build() -> dict[str, Any]:
    """Return the whole document."""
    entries = [*malformed_packets.entries(), *malformed_config.entries()]
    vectors = [{"id": f"M{n:03}"} | entry for n, entry in enumerate(entries, start=1)]
    meta = {
        "protocol": "OCP MRC 1.0 (triangulated)",
        "count": len(vectors),
        "conventions": _CONVENTIONS,
        "context": {"qps": [{"qpn": 18}, {"qpn": 33}]},
        "dscp": dict(DSCP),
    }
    return {"meta": meta, "vectors": vectors}


def main() -> None:
    """Write the document to the path given as the only argument."""
    Path(sys.argv[1]).write_text(json.dumps(build(), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
