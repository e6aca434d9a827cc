"""An independent small model of MRC packets, for tests and tools only.

Written from the reference (sections 2 to 4), table by table, without the engine: whatever both agree on was
understood twice. It is slow and complete; nothing that moves data may import it.
"""

from __future__ import annotations

from softmrc.wire.frames import decode_layer, derive_layer, encode_layer
from softmrc.wire.icrc import icrc
from softmrc.wire.verdict import DEFAULT_CONTEXT, classify_layer

__all__ = ["DEFAULT_CONTEXT", "classify_layer", "decode_layer", "derive_layer", "encode_layer", "icrc"]
