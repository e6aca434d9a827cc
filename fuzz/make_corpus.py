"""Makes the seed corpora of the fuzz targets: packets of the vector files, and seeded lists of engine operations."""

from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path

HERE = Path(__file__).resolve().parent
DATA = HERE.parent / "tests" / "data"
# First byte of a wire input: which entry of the decoder takes the rest.
FRAME, DATAGRAM_VERIFIED, IB, TRIM = b"\x00", b"\x11", b"\x02", b"\x03"
ENTRIES = {"IPV4": FRAME, "IPV6": FRAME, "SRV6": FRAME, "IPV6_TRIMMED": FRAME, "IB": IB}
ENGINE_INPUTS = 40


def write(folder: Path, inputs: set[bytes]) -> None:
    """Replaces the files of `folder` by `inputs`, named by their digest."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for data in sorted(inputs):
        (folder / hashlib.blake2b(data, digest_size=8).hexdigest()).write_bytes(data)


def wire_inputs() -> set[bytes]:
    """Returns each whole packet of the vector files behind the byte that names its entry."""
    inputs: set[bytes] = set()
    for name in ("vectors.json", "malformed.json"):
        for vector in json.loads((DATA / name).read_text())["vectors"]:
            entry = ENTRIES.get(vector["layer"])
            if entry is None or not vector.get("hex"):
                continue
            packet = bytes.fromhex(vector["hex"])
            inputs.add(entry + packet)
            if name == "vectors.json":
                inputs.add((DATAGRAM_VERIFIED if entry == IB else TRIM) + packet)
    return inputs


def engine_inputs() -> set[bytes]:
    """Returns operation lists: random bytes, half of them biased to posts, time and mutated packets."""
    rng = random.Random(1)
    inputs = set()
    for i in range(ENGINE_INPUTS):
        data = bytearray(rng.randbytes(200 + 25 * i))
        if i % 2:
            for at in range(1, len(data), 9):
                data[at] = rng.choice((0, 1, 2, 3, 4, 5, 6))
        inputs.add(bytes(data))
    return inputs


def main() -> None:
    """Writes both corpora."""
    write(HERE / "corpus" / "wire", wire_inputs())
    write(HERE / "corpus" / "engine", engine_inputs())


if __name__ == "__main__":
    main()
