"""Queues of the lab: packets that find no room become headers, marks come before, control goes first, rates hold."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import NamedTuple

import pytest

from softmrc.lab import Lab, faults, queues
from softmrc.lab.bpf_build import why_no_bpf
from softmrc.lab.bpf_kernel import program_by_id
from softmrc.lab.plan import inner_address
from softmrc.lab.ports import PortCounters
from softmrc.lab.queue_spec import Dscps, QueueSpec
from softmrc.lab.snapshot import differences
from softmrc.netns.enter import entered
from softmrc.netns.space import tell

CODES = Dscps()
ECT0, CE = 2, 3
TCLASS, RECVTCLASS = 67, 66
SEGMENT, NO_SUM, RCVBUFFORCE, SNDBUFFORCE, TIMESTAMPNS = 103, 102, 33, 32, 35
PAYLOAD = 8192
FABRIC = 10_000_000
WITHOUT_TSETH, WITH_TSETH = 16, 20


class Got(NamedTuple):
    length: int
    dscp: int
    ecn: int
    at: float  # when the kernel had it, on the clock of `time.time`
    data: bytes


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as found:
        yield found


@pytest.fixture(scope="module")
def slow(lab_maker: Callable[..., Lab]) -> Lab:
    """One plane, two hosts a T0, links between switches at a tenth of the hosts' rate."""
    if why_no_bpf():
        pytest.skip(f"needs clang and BPF: {why_no_bpf()}")
    return lab_maker(
        planes=1,
        t0=2,
        t1=1,
        hosts=4,
        rate_bps=100_000_000,
        fabric_rate_bps=FABRIC,
        encap=True,
        switch="kernel",
    )


class Pair:
    """Sockets in two hosts."""

    def __init__(
        self, stack: ExitStack, lab: Lab, src: str, dst: str, address: str | None = None, own: str = ""
    ) -> None:
        self.address = address or lab.addresses(dst)[0]
        with entered(lab.namespace(dst)):
            self.into = stack.enter_context(socket.socket(socket.AF_INET6, socket.SOCK_DGRAM))
            self.into.bind((own or lab.addresses(dst)[0], 0))
        with entered(lab.namespace(src)):
            self.out = stack.enter_context(socket.socket(socket.AF_INET6, socket.SOCK_DGRAM))
        self.into.setsockopt(socket.SOL_SOCKET, RCVBUFFORCE, 64 << 20)
        self.into.setsockopt(socket.SOL_UDP, NO_SUM, 1)
        self.into.setsockopt(socket.IPPROTO_IPV6, RECVTCLASS, 1)
        self.into.setsockopt(socket.SOL_SOCKET, TIMESTAMPNS, 1)
        self.into.settimeout(0.4)
        self.out.connect((self.address, self.into.getsockname()[1]))
        # Less than a host's queue takes, which drains at the rate of its port.
        self.out.setsockopt(socket.SOL_SOCKET, SNDBUFFORCE, 7 << 20)

    def send(
        self, count: int, dscp: int, *, ecn: int = ECT0, tseth: bool = False, size: int = PAYLOAD
    ) -> None:
        self.out.setsockopt(socket.IPPROTO_IPV6, TCLASS, dscp << 2 | ecn)
        for number in range(count):
            self.out.send(packet(number, tseth, size))

    def receive(self) -> list[Got]:
        found = []
        with contextlib.suppress(TimeoutError):
            while True:
                data, extra, _, _ = self.into.recvmsg(65535, 128)
                told = {kind: value for _, kind, value in extra}
                (tc,) = struct.unpack("i", told[TCLASS])
                at, ns = struct.unpack("qq", told[TIMESTAMPNS])
                found.append(Got(len(data), tc >> 2, tc & 3, at + ns / 1e9, data))
        return found


def packet(number: int, tseth: bool, size: int) -> bytes:
    """Bytes whose BTH says whether a TSETH follows, and that begin with a number."""
    head = bytearray(struct.pack(">Q", number) + bytes(size - 8))
    head[8] = 0x10 if tseth else 0
    head[9:] = bytes((number + i) & 255 for i in range(9, size))
    return bytes(head)


def spent(lab: Lab, link: str, direction: str, before: dict[str, dict[str, PortCounters]]) -> PortCounters:
    return queues.counters(lab)[link][direction].since(before[link][direction])


@pytest.mark.parametrize("tseth", [False, True])
def test_packets_without_room_arrive_as_headers_and_none_is_lost(
    slow: Lab, stack: ExitStack, tseth: bool
) -> None:
    pair = Pair(stack, slow, "h0", "h2", slow.paths("h0", "h2")[0].address)
    before = queues.counters(slow)
    pair.send(200, CODES.trimmable, tseth=tseth)
    got = pair.receive()
    kinds = Counter((g.length, g.dscp) for g in got)
    cut = WITH_TSETH if tseth else WITHOUT_TSETH
    assert set(kinds) == {(PAYLOAD, CODES.trimmable), (cut, CODES.trimmed)}
    assert len(got) == 200
    # Each is one of those that were sent, cut or whole, and none comes twice.
    numbers = [struct.unpack(">Q", g.data[:8])[0] for g in got]
    assert sorted(numbers) == list(range(200))
    assert all(g.data == packet(n, tseth, PAYLOAD)[: g.length] for g, n in zip(got, numbers, strict=True))
    port = spent(slow, "p1.t0-0.t1-0", "up", before)
    assert (port.trimmed, port.dropped, port.trim_failed, port.overflow) == (
        kinds[cut, CODES.trimmed],
        0,
        0,
        0,
    )
    assert port.bursts == 0


def test_the_line_carries_its_rate_and_headers_hardly_use_it(slow: Lab, stack: ExitStack) -> None:
    pair = Pair(stack, slow, "h0", "h2", slow.paths("h0", "h2")[0].address)
    pair.send(500, CODES.trimmable)
    got = pair.receive()
    # The second half of what came whole: the queue is full from then on, and was before.
    whole = [g.at for g in got if g.length == PAYLOAD]
    half = whole[len(whole) // 2 :]
    rate = (len(half) - 1) * (PAYLOAD + 8 + 40 + 14) * 8 / (half[-1] - half[0])
    assert 0.9 * FABRIC < rate < 1.05 * FABRIC


def test_marks_come_before_trims_and_not_on_the_last_hop(slow: Lab, stack: ExitStack) -> None:
    far = Pair(stack, slow, "h0", "h2", slow.paths("h0", "h2")[0].address)
    far.send(200, CODES.trimmable)
    whole = [g for g in far.receive() if g.length == PAYLOAD]
    first = next(i for i, g in enumerate(whole) if g.ecn == CE)
    # The queue has to fill to 20 % of the product of rate and round trip before anything is marked.
    spec = QueueSpec.of_switch(FABRIC, 9000, last_hop=False, rtt=queues.lab_rtt(slow.spec))
    assert first >= spec.ecn_min // (PAYLOAD + 62)
    assert sum(g.ecn == CE for g in whole) > len(whole) / 3
    near = [Pair(stack, slow, src, "h0") for src in ("h1",)]
    before = queues.counters(slow)
    near[0].send(50, CODES.trimmable)
    assert all(g.ecn == ECT0 for g in near[0].receive())
    assert spent(slow, "h0.p1", "down", before).marked == 0


def test_a_flow_at_the_rate_of_its_path_is_hardly_marked(lab: Lab, stack: ExitStack) -> None:
    # The host's shaper makes up for late timers by bursts; the queues behind it have to bear them.
    if why_no_bpf():
        pytest.skip(f"needs clang and BPF: {why_no_bpf()}")
    pair = Pair(stack, lab, "h0", "h2", lab.paths("h0", "h2")[0].address)
    pair.out.setsockopt(socket.SOL_UDP, SEGMENT, PAYLOAD)
    for _ in range(100):
        pair.send(1, CODES.trimmable, size=7 * PAYLOAD)
    got = pair.receive()
    assert len(got) == 700
    assert sum(g.ecn == CE for g in got) < 35


def test_the_last_hop_has_a_code_of_its_own(slow: Lab, stack: ExitStack) -> None:
    pair = Pair(stack, slow, "h3", "h2")
    before = queues.counters(slow)
    faults.fail(slow, "h2", rate=0.1, direction="down")
    try:
        pair.send(200, CODES.trimmable_retx)
        got = pair.receive()
    finally:
        faults.heal(slow)
    port = spent(slow, "h2.p1", "down", before)
    assert port.trimmed > 0
    assert Counter(g.dscp for g in got) == {
        CODES.trimmed_lasthop: port.trimmed,
        CODES.trimmable_retx: 200 - port.trimmed,
    }


@pytest.mark.parametrize(("dscp", "ecn"), [(0, ECT0), (0, 0)])
def test_what_may_not_be_trimmed_is_dropped_when_the_queue_is_full(
    slow: Lab, stack: ExitStack, dscp: int, ecn: int
) -> None:
    pair = Pair(stack, slow, "h0", "h2", slow.paths("h0", "h2")[0].address)
    before = queues.counters(slow)
    pair.send(300, dscp, ecn=ecn)
    got = pair.receive()
    port = spent(slow, "p1.t0-0.t1-0", "up", before)
    assert port.dropped > 0
    assert port.trimmed == 0
    assert len(got) == 300 - port.dropped - port.overflow
    assert {(g.length, g.dscp) for g in got} == {(PAYLOAD, dscp)}
    assert (ecn == ECT0) == any(g.ecn == CE for g in got)


def test_control_overtakes_a_full_queue(slow: Lab, stack: ExitStack) -> None:
    data = Pair(stack, slow, "h0", "h2", slow.paths("h0", "h2")[0].address)
    control = Pair(stack, slow, "h0", "h2", slow.paths("h0", "h2")[0].address)
    data.send(200, CODES.trimmable)
    sent = time.time()
    control.send(1, CODES.control, ecn=0, size=64)
    (got,) = control.receive()
    last = max(g.at for g in data.receive() if g.length == PAYLOAD)
    assert (got.dscp, got.ecn) == (CODES.control, 0)
    # 1.6 MB of data take 130 ms through the host's port; control waits for none of it.
    assert got.at - sent < (last - sent) / 2


def test_runs_of_datagrams_are_split_before_they_reach_a_switch(slow: Lab, stack: ExitStack) -> None:
    for size, each in ((PAYLOAD, 7), (500, 6)):  # longer than a packet of the link, and shorter
        pair = Pair(stack, slow, "h0", "h1")
        pair.out.setsockopt(socket.SOL_UDP, SEGMENT, size)
        before = queues.counters(slow)
        for _ in range(5):
            pair.out.send(bytes(size * each))
        assert [g.length for g in pair.receive()] == [size] * each * 5
        assert spent(slow, "h0.p1", "up", before).bursts == 5
        assert spent(slow, "h1.p1", "down", before).bursts == 0


def test_packed_packets_are_marked_inside_and_not_trimmed(slow: Lab, stack: ExitStack) -> None:
    to = inner_address(1, 0, 2)
    pair = Pair(stack, slow, "h0", "h2", to, own=to)
    before = queues.counters(slow)
    pair.send(300, CODES.trimmable)
    got = pair.receive()
    port = spent(slow, "p1.t0-0.t1-0", "up", before)
    # The kernel refuses to cut what it has packed; it is queued like what may not be trimmed.
    assert port.trim_failed > port.dropped > 0
    assert {(g.length, g.dscp) for g in got} == {(PAYLOAD, CODES.trimmable)}
    assert len(got) == 300 - port.dropped - port.overflow
    assert any(g.ecn == CE for g in got)


def test_without_bpf_the_lab_works_and_says_what_it_lacks(
    lab_maker: Callable[..., Lab], stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queues, "bpf_object", lambda: None)
    monkeypatch.setattr(queues, "why_no_bpf", lambda: "clang is not installed (apt install clang)")
    plain = lab_maker(
        planes=1, t0=2, t1=1, hosts=2, rate_bps=100_000_000, fabric_rate_bps=FABRIC, switch="kernel"
    )
    assert any("clang" in note for note in plain.state.notes)
    assert plain.fabric().trimming is False
    pair = Pair(stack, plain, "h0", "h1", plain.paths("h0", "h1")[0].address)
    control = Pair(stack, plain, "h0", "h1", plain.paths("h0", "h1")[0].address)
    pair.send(100, CODES.trimmable)
    sent = time.time()
    control.send(1, CODES.control, size=64)
    (first,) = control.receive()
    got = pair.receive()
    assert {g.length for g in got} == {PAYLOAD}
    assert first.at - sent < (got[-1].at - sent) / 2, "control does not overtake"


def test_no_program_outlives_its_lab(lab_maker: Callable[..., Lab]) -> None:
    if why_no_bpf():
        pytest.skip(f"needs clang and BPF: {why_no_bpf()}")
    short = lab_maker(planes=1, t0=1, t1=0, hosts=2, switch="kernel")
    faults.fail(short, "h0.p1", loss=0.5)
    at = short.namespace("p1.t0-0")
    numbers = [
        entry["options"]["prog"]["id"]
        for dev in ("h0", "h1")
        for hook in ("ingress", "egress")
        for entry in json.loads(tell("tc", "-n", at, "-j", "filter", "show", "dev", dev, hook))
        if "options" in entry
    ]
    assert len(numbers) == 3  # two queues, and the line from h0
    short.down()
    deadline = time.monotonic() + 20
    while (left := [n for n in numbers if alive(n)]) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left == []


def alive(number: int) -> bool:
    try:
        os.close(program_by_id(number))
    except OSError:
        return False
    return True


def test_labs_of_equal_spec_have_equal_queues(lab_maker: Callable[..., Lab], slow: Lab) -> None:
    twin = lab_maker(**{**slow.spec.to_json(), "name": f"{slow.name}b", "links": ()})
    assert differences(slow.snapshot(), twin.snapshot()) == []
