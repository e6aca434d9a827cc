"""One rank's Chakra execution trace, read into plain nodes.

Decides what a well-formed file is: `.et` holds length-delimited messages, first GlobalMetadata, then a Node each, also
gzipped; `.json` is either an object with `workload_graph`, as ASTRA-sim's feeder reads it, or the messages of an `.et`
as protobuf writes them in JSON, one after another. Leaves what nodes do to `softmrc.sim.chakra`.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from softmrc.errors import UsageError
from softmrc.sim.chakra_schema import NODE_TYPES, message_types

__all__ = ["COLLECTIVES", "TraceNode", "read_trace"]

COLLECTIVES = (
    "ALL_REDUCE",
    "REDUCE",
    "ALL_GATHER",
    "GATHER",
    "SCATTER",
    "BROADCAST",
    "ALL_TO_ALL",
    "REDUCE_SCATTER",
    "REDUCE_SCATTER_BLOCK",
    "BARRIER",
)
"""Names by number of the attribute `comm_type`."""
_SUPPORTED = ("COMP_NODE", "COMM_SEND_NODE", "COMM_RECV_NODE", "COMM_COLL_NODE")
_INTEGERS = (
    "num_ops",
    "tensor_size",
    "comm_type",
    "comm_size",
    "comm_src",
    "comm_dst",
    "comm_tag",
    "comm_priority",
)
_TEXTS = ("pg_name",)
_SPACE = re.compile(r"\s*")
_MOST = (1 << 63) - 1


@dataclass(frozen=True)
class TraceNode:
    """One node of a trace."""

    id: int
    name: str
    kind: str
    """COMP_NODE, COMM_SEND_NODE, COMM_RECV_NODE or COMM_COLL_NODE."""
    deps: tuple[int, ...]
    """Ids of nodes of the same rank that end before this one begins: data and control."""
    duration_us: int
    attributes: Mapping[str, int | str]
    """Those of a known name: comm_size in bytes, comm_type, comm_src, comm_dst, comm_tag, pg_name, num_ops, ..."""
    where: str
    """File and node, for messages."""

    def number(self, name: str) -> int:
        """Return a whole number among the attributes.

        Raises:
            UsageError: the node has none of that name.
        """
        if name not in self.attributes:
            raise UsageError(f"{self.where}: no attribute {name}")
        return int(self.attributes[name])


def read_trace(path: str | Path) -> list[TraceNode]:
    """Read the trace of one rank.

    Raises:
        UsageError: it cannot be read, is malformed, has a node twice, a dependency on a node it has not, or a node that
            neither computes nor communicates; names file and node.
    """
    path = Path(path)
    try:
        raw = path.read_bytes()
        if raw[:2] == b"\x1f\x8b":
            raw = gzip.decompress(raw)
    except (OSError, EOFError, zlib.error) as e:
        raise UsageError(f"cannot read the trace {path}: {e}") from e
    nodes = list(_from_json(raw, path) if path.suffix == ".json" else _from_messages(raw, path))
    known: set[int] = set()
    for node in nodes:
        if node.id in known:
            raise UsageError(f"{node.where}: a second node of that id")
        known.add(node.id)
    for node in nodes:
        for dep in node.deps:
            if dep not in known:
                raise UsageError(f"{node.where}: waits for node {dep}, which the file does not have")
    if not nodes:
        raise UsageError(f"{path}: no node")
    return nodes


def _from_messages(raw: bytes, path: Path) -> Iterator[TraceNode]:
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    metadata, node_type = message_types()
    for number, (begin, end) in enumerate(_frames(raw, path)):
        made = metadata() if number == 0 else node_type()
        try:
            made.ParseFromString(raw[begin:end])
        except DecodeError as e:
            raise UsageError(
                f"{path}: message {number} at byte {begin} is no {type(made).__name__}: {e}"
            ) from None
        if number:
            yield _from_proto(made, path)


def _frames(raw: bytes, path: Path) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each message; a varint before it tells its length."""
    at = 0
    while at < len(raw):
        size, shift, start = 0, 0, at
        while True:
            if at >= len(raw) or shift > 28:
                raise UsageError(f"{path}: no message length at byte {start}; is it a Chakra trace?")
            size |= (raw[at] & 0x7F) << shift
            shift += 7
            at += 1
            if not raw[at - 1] & 0x80:
                break
        if at + size > len(raw):
            raise UsageError(
                f"{path}: the message at byte {at} has {size} bytes, the file {len(raw) - at} more"
            )
        yield at, at + size
        at += size


def _from_proto(node: Any, path: Path) -> TraceNode:
    where = f"{path}: node {node.id} ({node.name or 'no name'})"
    known: dict[str, Any] = {}
    for attribute in node.attr:
        kind = attribute.WhichOneof("value")
        if kind is not None and attribute.name in (*_INTEGERS, *_TEXTS):
            known[attribute.name] = getattr(attribute, kind)
    deps = [*node.data_deps, *node.ctrl_deps]
    return _node(where, node.id, node.name, node.type, deps, node.duration_micros, known)


def _node(
    where: str, number: Any, name: str, kind: Any, deps: Any, duration: Any, attributes: Mapping[str, Any]
) -> TraceNode:
    kind_name = NODE_TYPES[kind] if isinstance(kind, int) and 0 <= kind < len(NODE_TYPES) else str(kind)
    if kind_name not in _SUPPORTED:
        raise UsageError(
            f"{where}: {kind_name} is not supported; a network simulation runs {', '.join(_SUPPORTED)}"
        )
    if not isinstance(deps, list):
        raise UsageError(f"{where}: its dependencies are no list")
    values: dict[str, int | str] = {}
    for key, value in attributes.items():
        if key in _TEXTS:
            values[key] = str(value)
        else:
            values[key] = _whole(where, key, COLLECTIVES.index(value) if value in COLLECTIVES else value)
    ids = tuple(dict.fromkeys(_whole(where, "dependency", d) for d in deps))
    return TraceNode(
        _whole(where, "id", number), name, kind_name, ids, _whole(where, "duration", duration), values, where
    )


def _whole(where: str, what: str, value: Any) -> int:
    try:
        # JSON of protobuf has 64-bit numbers as text.
        number = int(value) if isinstance(value, str) or value == int(value) else None
    except (TypeError, ValueError, OverflowError):
        number = None
    if number is None or not 0 <= number <= _MOST:
        raise UsageError(f"{where}: {what} is a whole number of at least 0, not {value!r}")
    return number


def _from_json(raw: bytes, path: Path) -> Iterator[TraceNode]:
    for number, item in enumerate(_json_values(raw, path)):
        if not isinstance(item, dict):
            raise UsageError(f"{path}: value {number} is no JSON object")
        if "workload_graph" in item:
            graph = item["workload_graph"]
            if not isinstance(graph, list) or not all(isinstance(n, dict) for n in graph):
                raise UsageError(f"{path}: workload_graph is no list of objects")
            for node in graph:
                yield _from_workload_graph(node, path)
        elif number or "type" in item:
            yield _from_json_message(item, path)


def _json_values(raw: bytes, path: Path) -> Iterator[Any]:
    try:
        text = raw.decode("utf-8")
        decoder, at = json.JSONDecoder(), _begin(text, 0)
        while at < len(text):
            value, at = decoder.raw_decode(text, at)
            yield value
            at = _begin(text, at)
    except (UnicodeDecodeError, json.JSONDecodeError) as e:
        raise UsageError(f"{path}: not JSON: {e}") from None


def _begin(text: str, at: int) -> int:
    """Return where the next value begins."""
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _from_workload_graph(item: dict[str, Any], path: Path) -> TraceNode:
    number, name = item.get("Id"), str(item.get("Name", ""))
    where = f"{path}: node {number} ({name or 'no name'})"
    if number is None or "NodeType" not in item:
        raise UsageError(f"{where}: a node has Id and NodeType")
    attributes = {k: item[k] for k in (*_INTEGERS, *_TEXTS) if k in item}
    deps = [*item.get("data_deps", []), *item.get("ctrl_deps", [])]
    return _node(where, number, name, item["NodeType"], deps, item.get("runtime", 0), attributes)


def _from_json_message(item: dict[str, Any], path: Path) -> TraceNode:
    number, name = item.get("id", 0), str(item.get("name", ""))
    where = f"{path}: node {number} ({name or 'no name'})"
    attributes: dict[str, Any] = {}
    for attribute in item.get("attr", []):
        values = [v for k, v in attribute.items() if k.endswith(("Val", "_val"))]
        if attribute.get("name") in (*_INTEGERS, *_TEXTS) and len(values) == 1:
            attributes[attribute["name"]] = values[0]
    deps = [*_either(item, "dataDeps", "data_deps"), *_either(item, "ctrlDeps", "ctrl_deps")]
    duration = item.get("durationMicros", item.get("duration_micros", 0))
    return _node(where, number, name, item.get("type", "INVALID_NODE"), deps, duration, attributes)


def _either(item: dict[str, Any], one: str, other: str) -> list[Any]:
    found = item.get(one, item.get(other, []))
    return found if isinstance(found, list) else [found]
