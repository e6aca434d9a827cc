"""Chakra execution traces: reading files of both forms, and what their nodes become."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softmrc.errors import UsageError
from softmrc.sim.chakra import read_chakra, trace_files
from softmrc.sim.chakra_schema import message_types
from softmrc.sim.chakra_trace import read_trace
from softmrc.sim.workload import TaskKind, Workload

COMP, SEND, RECV, COLL, MEM = 4, 5, 6, 7, 2


def node(
    number: int, kind: int, deps: Sequence[int] = (), duration: int = 0, **attributes: Any
) -> dict[str, Any]:
    return {"id": number, "kind": kind, "deps": list(deps), "duration": duration, **attributes}


def framed(data: bytes) -> bytes:
    size, head = len(data), b""
    while size > 0x7F:
        head, size = head + bytes([size & 0x7F | 0x80]), size >> 7
    return head + bytes([size]) + data


def write_et(path: Path, nodes: list[dict[str, Any]], kind_of_value: str = "int64_val") -> None:
    metadata, made = message_types()
    out = framed(metadata(version="0.0.4").SerializeToString())
    for n in nodes:
        message = made(
            id=n["id"], name=f"n{n['id']}", type=n["kind"], data_deps=n["deps"], duration_micros=n["duration"]
        )
        for name, value in n.items():
            if name not in ("id", "kind", "deps", "duration"):
                field = "string_val" if isinstance(value, str) else kind_of_value
                message.attr.add(name=name, **{field: value})
        out += framed(message.SerializeToString())
    path.write_bytes(out)


def write_graph(path: Path, nodes: list[dict[str, Any]]) -> None:
    graph = []
    for n in nodes:
        rest = {k: v for k, v in n.items() if k not in ("id", "kind", "deps", "duration")}
        graph.append(
            {
                "Id": n["id"],
                "Name": "x",
                "NodeType": n["kind"],
                "data_deps": n["deps"],
                "runtime": n["duration"],
                **rest,
            }
        )
    path.write_text(json.dumps({"workload_graph": graph}))


def job(folder: Path, *ranks: list[dict[str, Any]], **options: Any) -> Workload:
    for rank, nodes in enumerate(ranks):
        write_et(folder / f"job.{rank}.et", nodes)
    return read_chakra(folder / "job", **options)


def reaches(work: Workload, task: int) -> set[int]:
    todo, seen = [task], set()
    while todo:
        for dep in work.dependencies(todo.pop()).tolist():
            if dep not in seen:
                seen.add(dep)
                todo.append(dep)
    return seen


def test_bytes_of_a_hand_made_file(tmp_path: Path) -> None:
    """Metadata "0.0.4"; node 300, name "a", COMM_SEND_NODE, after 1 and 2, 7 us, comm_size (uint64) 5."""
    metadata = bytes([0x0A, 5]) + b"0.0.4"
    first = bytes([0x08, 1, 0x12, 1]) + b"b" + bytes([0x18, 4])
    second = bytes([0x08, 2, 0x12, 1]) + b"c" + bytes([0x18, 4])
    attribute = bytes([0x0A, 9]) + b"comm_size" + bytes([13 << 3, 5])
    send = bytes([0x08, 0xAC, 0x02, 0x12, 1]) + b"a" + bytes([0x18, 5, 0x22, 1, 1, 0x2A, 1, 2, 0x38, 7])
    send += bytes([10 << 3 | 2, len(attribute)]) + attribute
    raw = b"".join(bytes([len(m)]) + m for m in (metadata, first, second, send))
    (tmp_path / "a.et").write_bytes(raw)
    (tmp_path / "b.et").write_bytes(gzip.compress(raw))
    for name in ("a.et", "b.et"):
        read = read_trace(tmp_path / name)[2]
        assert (read.id, read.name, read.kind, read.duration_us) == (300, "a", "COMM_SEND_NODE", 7)
        assert set(read.deps) == {1, 2}
        assert read.attributes == {"comm_size": 5}


def test_json_forms_say_the_same(tmp_path: Path) -> None:
    nodes = [node(3, COMP, duration=12), node(4, SEND, [3], comm_dst=1, comm_size=1 << 33, comm_tag=2)]
    write_et(tmp_path / "a.et", nodes, "uint64_val")
    write_graph(tmp_path / "b.json", nodes)
    messages = [
        {"version": "0.0.4"},
        {"id": "3", "name": "x", "type": "COMP_NODE", "durationMicros": "12"},
        {"id": "4", "name": "x", "type": "COMM_SEND_NODE", "dataDeps": ["3"], "attr": [
            {"name": "comm_dst", "int32Val": 1}, {"name": "comm_size", "int64Val": str(1 << 33)},
            {"name": "comm_tag", "uint32Val": 2}, {"name": "is_cpu_op", "boolVal": False}]},
    ]  # fmt: skip
    (tmp_path / "c.json").write_text("\n".join(json.dumps(m, indent=2) for m in messages))
    for name in ("a.et", "b.json", "c.json"):
        comp, send = read_trace(tmp_path / name)
        assert (comp.kind, comp.duration_us, comp.deps) == ("COMP_NODE", 12, ())
        assert (send.kind, send.deps) == ("COMM_SEND_NODE", (3,))
        assert send.attributes == {"comm_dst": 1, "comm_size": 1 << 33, "comm_tag": 2}


def test_compute_send_and_receive(tmp_path: Path) -> None:
    work = job(
        tmp_path,
        [node(1, COMP, duration=10), node(2, SEND, [1], comm_dst=1, comm_size=4096, comm_src=0)],
        [
            node(7, RECV, [9], comm_src=0, comm_size=4096),
            node(9, COMP, duration=3),
            node(8, COMP, [7], duration=5),
        ],
        placement=[4, 2],
    )
    (send,) = work.sends.tolist()
    assert (work.node[send], work.peer[send], work.size[send]) == (4, 2, 4096)
    computes = {int(work.delay[t]): t for t in range(work.n) if t != send}
    assert sorted(computes) == [0, 3000, 5000, 10000]
    assert work.dependencies(send).tolist() == [computes[10000]]
    assert set(work.dependencies(computes[0])) == {send, computes[3000]}
    assert work.dependencies(computes[5000]).tolist() == [computes[0]]
    assert work.node[[computes[0], computes[3000], computes[5000]]].tolist() == [2, 2, 2]


def test_messages_meet_in_order_by_tag(tmp_path: Path) -> None:
    work = job(
        tmp_path,
        [
            node(i, SEND, comm_dst=1, comm_size=size, comm_tag=tag)
            for i, (size, tag) in enumerate([(10, 0), (20, 1), (30, 0)])
        ],
        [
            node(i, RECV, comm_src=0, comm_size=size, comm_tag=tag)
            for i, (size, tag) in enumerate([(20, 1), (10, 0), (30, 0)])
        ],
    )
    met = [int(work.size[d]) for t in range(work.n) for d in work.dependencies(t)]
    assert sorted(met) == [10, 20, 30]


@pytest.mark.parametrize(
    ("comm_type", "size", "options", "carried"),
    [
        (0, 900, {}, 2 * 2 * 900),
        (0, 900, {"all_reduce": "tree", "pieces": 2}, 2 * 2 * 900),
        (2, 300, {}, 2 * 900),
        (7, 900, {}, 2 * 900),
        (6, 900, {}, 6 * 300),
        (5, 900, {}, 2 * 900),
        (9, 900, {}, 0),
    ],
)
def test_collectives(
    tmp_path: Path, comm_type: int, size: int, options: dict[str, Any], carried: int
) -> None:
    def rank(duration: int) -> list[dict[str, Any]]:
        return [
            node(0, COMP, duration=duration),
            node(1, COLL, [0], comm_type=comm_type, comm_size=size),
            node(2, COMP, [1], duration=9),
        ]

    work = job(tmp_path, rank(1), rank(2), rank(3), **options)
    assert work.bytes == carried
    lasts = [t for t in range(work.n) if work.delay[t] == 9000]
    firsts = {t for t in range(work.n) if work.delay[t] in (1000, 2000, 3000)}
    assert len(lasts) == len(firsts) == 3
    # A rank goes on after its own part, and after the others' where their data reach it.
    for last in lasts:
        own = {t for t in firsts if work.node[t] == work.node[last]}
        assert reaches(work, last) >= (own if comm_type == 5 else firsts)
    if comm_type != 9:
        assert [c.ranks for c in work.collectives] == [3]


def test_broadcast_begins_at_its_root(tmp_path: Path) -> None:
    rank = [node(1, COLL, comm_type=5, comm_size=50, comm_src=2)]
    work = job(tmp_path, rank, rank, rank)
    assert set(work.node[work.sends].tolist()) == {2}


def test_process_groups(tmp_path: Path) -> None:
    def rank(name: str) -> list[dict[str, Any]]:
        return [
            node(1, COLL, comm_type=0, comm_size=100, pg_name=name),
            node(2, COLL, [1], comm_type=0, comm_size=40),
        ]

    ranks = [rank("a"), rank("b"), rank("a"), rank("b")]
    work = job(tmp_path, *ranks)
    pairs = {frozenset(p) for p in zip(work.node[work.size == 50], work.peer[work.size == 50], strict=True)}
    assert pairs == {frozenset({0, 2}), frozenset({1, 3})}
    assert sorted(c.ranks for c in work.collectives) == [2, 2, 4]
    groups = tmp_path / "groups.json"
    groups.write_text(json.dumps({"a": [0, 2], "b": [3, 1]}))
    assert job(tmp_path, *ranks, groups=groups).bytes == work.bytes
    groups.write_text(json.dumps({"a": [0, 1, 2], "b": [3, 1]}))
    with pytest.raises(UsageError, match=r"job.1.et: 0 collectives in process group 'a', others have 1"):
        read_chakra(tmp_path / "job", groups=groups)
    groups.write_text(json.dumps({"a": [0, 2]}))
    with pytest.raises(UsageError, match="process group 'b' is not in the file"):
        read_chakra(tmp_path / "job", groups=groups)
    for bad in ("[]", '{"a": [0, 9]}', '{"a": [0, 0]}', '{"a": []}', "{"):
        groups.write_text(bad)
        with pytest.raises(UsageError, match="group"):
            read_chakra(tmp_path / "job", groups=groups)


def test_operations_become_time(tmp_path: Path) -> None:
    work = job(tmp_path, [node(1, COMP, num_ops=2_000_000_000)], tflops=1.0)
    assert (work.kind.tolist(), work.delay.tolist()) == ([TaskKind.COMPUTE], [2_000_000])
    with pytest.raises(UsageError, match=r"job.0.et: node 1 \(n1\): 2000000000 operations but no duration"):
        read_chakra(tmp_path / "job")


def test_a_group_of_one_needs_no_network(tmp_path: Path) -> None:
    work = job(tmp_path, [node(1, COLL, comm_type=0, comm_size=100), node(2, COMP, [1], duration=4)])
    assert len(work.sends) == 0
    assert work.delay.sum() == 4000


@pytest.mark.parametrize(
    ("ranks", "words"),
    [
        ([[node(1, MEM)]], r"job.0.et: node 1 \(n1\): MEM_LOAD_NODE is not supported"),
        ([[node(1, 0)]], "INVALID_NODE is not supported"),
        ([[node(1, COMP), node(1, COMP)]], r"node 1 \(n1\): a second node"),
        ([[node(1, COMP, [5])]], "waits for node 5, which the file does not have"),
        ([[]], "job.0.et: no node"),
        ([[node(1, SEND, comm_size=5)]], r"node 1 \(n1\): no attribute comm_dst"),
        ([[node(1, SEND, comm_size=5, comm_dst=0)]], "comm_dst is itself"),
        ([[node(1, SEND, comm_size=5, comm_dst=3)]], "comm_dst is rank 3, which has no trace"),
        (
            [[node(1, SEND, comm_size=5, comm_dst=1, comm_src=1)], [node(1, COMP)]],
            "comm_src 1 in the trace of rank 0",
        ),
        (
            [[node(1, SEND, comm_size=5, comm_dst=1)], [node(1, COMP)]],
            "job.0.et: node 1.*no receive meets it",
        ),
        ([[node(1, COMP)], [node(4, RECV, comm_size=5, comm_src=0)]], "job.1.et: node 4.*no send meets it"),
        (
            [[node(1, SEND, comm_size=5, comm_dst=1)], [node(2, RECV, comm_size=6, comm_src=0)]],
            "job.1.et: node 2.*takes 6 bytes, its send has 5",
        ),
        ([[node(1, SEND, comm_dst=1)], [node(2, RECV, comm_size=6, comm_src=0)]], "no attribute comm_size"),
        ([[node(1, COMP, [1])]], "waits for itself"),
        ([[node(1, COMP, [2]), node(2, COMP, [1])]], "2 nodes wait for one another for ever"),
        (
            [
                [node(1, RECV, comm_size=5, comm_src=1), node(2, SEND, [1], comm_size=5, comm_dst=1)],
                [node(1, RECV, comm_size=5, comm_src=0), node(2, SEND, [1], comm_size=5, comm_dst=0)],
            ],
            "4 nodes wait for one another",
        ),
        (
            [[node(1, COLL, comm_type=0, comm_size=4)], [node(1, COMP)]],
            "job.1.et: 0 collectives in process group ''",
        ),
        (
            [[node(1, COLL, comm_type=0, comm_size=4)], [node(1, COLL, comm_type=2, comm_size=4)]],
            "job.1.et: node 1.*another collective than",
        ),
        ([[node(1, COLL, comm_type=1, comm_size=4)]] * 2, "collective REDUCE is not supported"),
        ([[node(1, COLL, comm_type=44, comm_size=4)]] * 2, "collective 44 is not supported"),
        ([[node(1, COLL, comm_type=5, comm_size=4, comm_src=7)]] * 2, "comm_src 7 is not in the group"),
        ([[node(1, COLL, comm_size=4)]] * 2, "no attribute comm_type"),
    ],
)
def test_bad_traces_are_refused(tmp_path: Path, ranks: list[list[dict[str, Any]]], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        job(tmp_path, *ranks)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"\xff\xff\xff\xff\xff\xff", "no message length at byte 0"),
        (b"\x05abc", "the message at byte 1 has 5 bytes, the file 3 more"),
        (b"\x03\x0a\x7fa", "message 0 at byte 1 is no GlobalMetadata"),
        (b"\x1f\x8bnonsense", "cannot read the trace"),
    ],
)
def test_broken_files_are_refused(tmp_path: Path, raw: bytes, words: str) -> None:
    (tmp_path / "a.et").write_bytes(raw)
    with pytest.raises(UsageError, match=words):
        read_trace(tmp_path / "a.et")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not JSON"),
        ("[1]", "value 0 is no JSON object"),
        ('{"workload_graph": 3}', "workload_graph is no list"),
        ('{"workload_graph": [{"Id": 3}]}', "a node has Id and NodeType"),
        ('{"workload_graph": [{"Id": -3, "NodeType": 4}]}', "id is a whole number"),
        ('{"workload_graph": [{"Id": 3, "NodeType": 4, "runtime": 1.5}]}', "duration is a whole number"),
        ('{"workload_graph": [{"Id": 3, "NodeType": 99}]}', "99 is not supported"),
        ('{"version": "1"}\n{"id": "1"}', "INVALID_NODE is not supported"),
    ],
)
def test_broken_json_is_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(UsageError, match=words):
        read_trace(tmp_path / "a.json")


def test_files_of_a_job(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no trace"):
        trace_files(tmp_path / "job")
    with pytest.raises(UsageError, match="cannot read the directory"):
        trace_files(tmp_path / "none" / "job")
    for rank in (0, 2):
        write_et(tmp_path / f"job.{rank}.et", [node(1, COMP)])
    write_et(tmp_path / "job.x.et", [node(1, COMP)])
    with pytest.raises(UsageError, match="ranks to 2, but none for rank 1"):
        trace_files(tmp_path / "job")
    write_graph(tmp_path / "job.1.json", [node(1, COMP)])
    assert [p.name for p in trace_files(tmp_path / "job")] == ["job.0.et", "job.1.json", "job.2.et"]
    write_graph(tmp_path / "job.2.json", [node(1, COMP)])
    with pytest.raises(UsageError, match="rank 2 has two traces"):
        trace_files(tmp_path / "job")


def test_options_out_of_range(tmp_path: Path) -> None:
    rank = [node(1, COLL, comm_type=0, comm_size=4)]
    job(tmp_path, rank, rank)
    for options in ({"placement": [1]}, {"placement": [1, 1]}, {"all_reduce": "star"}, {"tflops": 0.0}):
        with pytest.raises(UsageError):
            read_chakra(tmp_path / "job", **options)  # type: ignore[arg-type]
    assert np.unique(job(tmp_path, rank, rank, placement=[7, 3]).node).tolist() == [3, 7]
