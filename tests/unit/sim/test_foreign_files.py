"""Files nobody here wrote, damaged at random: refused by name, or read; nothing else happens."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softmrc.errors import UsageError
from softmrc.sim.chakra import read_chakra
from softmrc.sim.chakra_schema import message_types
from softmrc.sim.htsim import parse_matrix
from softmrc.sim.htsim_topo import parse_topology
from softmrc.sim.htsim_workload import matrix_workload
from softmrc.sim.scenario import Scenario
from softmrc.sim.scenario_workloads import KINDS
from softmrc.sim.workload import Workload

WORDS = [
    "Nodes",
    "Connections",
    "Triggers",
    "Failures",
    "0->1",
    "1->2",
    "2->2",
    "id",
    "start",
    "size",
    "trigger",
]
WORDS += [
    "send_done_trigger",
    "recv_done_trigger",
    "prio",
    "oneshot",
    "multishot",
    "barrier",
    "count",
    "failure",
]
WORDS += [
    "switch_type",
    "AGG",
    "switch_id",
    "link_id",
    "0",
    "1",
    "2",
    "3",
    "7",
    "-1",
    "99999999999",
    "x",
    "#",
    "1e9",
]
TOPO = [
    "Nodes",
    "Tiers",
    "Podsize",
    "Tier",
    "Downlink_speed_Gbps",
    "Radix_Up",
    "Radix_Down",
    "Bundle",
    "Queue_Up",
]
TOPO += [
    "Downlink_Latency_ns",
    "Switch_Latency_ns",
    "Oversubscribed",
    "0",
    "1",
    "2",
    "4",
    "8",
    "100",
    "x",
    "#",
]


T = TypeVar("T")


def tried(make: Callable[[], T]) -> tuple[T | None, str]:
    """What `make` gives, or the text of its refusal; any other exception is a failure."""
    try:
        return make(), ""
    except UsageError as e:
        return None, str(e)


def soup(words: list[str]) -> st.SearchStrategy[str]:
    return st.lists(st.lists(st.sampled_from(words), max_size=8).map(" ".join), max_size=12).map("\n".join)


@given(soup(WORDS))
def test_words_of_a_matrix_in_any_order(text: str) -> None:
    made, refused = tried(lambda: matrix_workload(parse_matrix(text, "a.cm")))
    assert made is not None or refused.startswith("a.cm")


@given(soup(TOPO))
def test_words_of_a_topology_in_any_order(text: str) -> None:
    made, refused = tried(lambda: parse_topology(text, "a.topo"))
    assert made is not None or refused.startswith("a.topo")


def trace() -> bytes:
    metadata, node = message_types()
    out = b""
    messages = [metadata(version="1"), node(id=1, name="a", type=4, duration_micros=3)]
    send = node(id=2, name="b", type=7, data_deps=[1])
    send.attr.add(name="comm_type", int64_val=0)
    send.attr.add(name="comm_size", int64_val=64)
    for message in [*messages, send]:
        raw = message.SerializeToString()
        out += bytes([len(raw)]) + raw
    return out


@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=4), st.integers(0, 10_000))
def test_damaged_traces(changes: list[tuple[int, int]], end: int) -> None:
    raw = bytearray(trace())
    for at, value in changes:
        raw[at % len(raw)] = value
    with tempfile.TemporaryDirectory() as folder:
        for rank in range(2):
            (Path(folder) / f"job.{rank}.et").write_bytes(raw[: end % (2 * len(raw))] if rank else trace())

        def whole() -> Workload:
            work = read_chakra(Path(folder) / "job")
            work.validate(2)
            return work

        work, refused = tried(whole)
    assert refused if work is None else work.n > 0


VALUES = st.one_of(
    st.integers(-3, 300),
    st.floats(),
    st.booleans(),
    st.sampled_from(
        ["", "greedy", "5 us", "1 MB", "p1.t0-0", "h0.p1", "host", "websearch", "link_down", *KINDS]
    ),
    st.lists(st.integers(-1, 9), max_size=3),
)
KEYS = [
    "hosts",
    "planes",
    "hosts_per_t0",
    "t1_per_plane",
    "host_gbps",
    "kind",
    "size",
    "senders",
    "receiver",
    "order",
]
KEYS += [
    "steps",
    "compute_ns",
    "load",
    "duration_ns",
    "sizes",
    "target",
    "at_ns",
    "value",
    "pick",
    "times",
    "window",
]
KEYS += [
    "rails",
    "split_qps",
    "victim",
    "trees",
    "root",
    "name",
    "evs",
    "qps",
    "interval_ns",
    "until_ns",
    "every_ns",
]


@pytest.mark.parametrize("table", ["fabric", "workload", "transport", "fault", "sample", "stop"])
@given(given=st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=6))
def test_any_table_is_read_or_refused(table: str, given: dict[str, object]) -> None:
    data: dict[str, object] = {
        "fabric": {"hosts": 8, "planes": 2, "hosts_per_t0": 4, "t1_per_plane": 2},
        "workload": {"kind": "permutation", "size": 9},
        "stop": {"until_ns": 5},
    }
    data[table] = [given] if table == "fault" else given

    def whole() -> Workload:
        scenario = Scenario.from_tables(data)
        scenario.settings()
        work = scenario.workload()
        work.validate(scenario.topology.hosts)
        return work

    work, refused = tried(whole)
    assert refused if work is None else work.n > 0


@given(kind=st.sampled_from(KINDS), given=st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=5))
def test_any_workload_is_made_or_refused(kind: str, given: dict[str, object]) -> None:
    data = {
        "fabric": {"hosts": 8, "planes": 2, "hosts_per_t0": 4, "t1_per_plane": 2},
        "workload": {"size": 64, **given, "kind": kind},
        "stop": {"until_ns": 5},
    }
    work, refused = tried(lambda: Scenario.from_tables(data).workload())
    assert refused if work is None else work.n > 0
