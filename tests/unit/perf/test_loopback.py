"""Client and server over the loopback: every kind of measurement, and what must be refused. No figure is judged."""

from __future__ import annotations

import asyncio
import json
import os
import struct
from pathlib import Path

import pytest
from tests.unit.perf.conftest import PLANES

from softmrc.errors import PeerError, UsageError
from softmrc.perf import Local, Plan, Row, measure
from softmrc.perf.server import _planes

ROW_KEYS = {
    "goodput_gbps", "msg_rate_mps", "lat_us", "cpu_s_per_gb", "seconds", "bytes", "rtx", "qps", "jain", "bins",
    "per_plane", "per_ev", "qp_errors", "assumed_bad", "partial", "pmtu", "size", "op",
}  # fmt: skip


def go(server, plan, *rows, local=None, **options):
    mine = Local(**{"planes": tuple(p.replace(".6", ".7") for p in PLANES), "evs": 4, **(local or {})})
    return asyncio.run(measure("127.0.0.61", server.port, mine, plan, rows, **options))


def check(result, plan):
    assert result.keys() >= ROW_KEYS
    assert result["lat_us"].keys() >= {"min", "p50", "p90", "p99", "p999", "max"}
    assert result["qp_errors"] == result["errors"] == 0
    assert not result["partial"]
    assert sum(p["share"] for p in result["per_plane"]) == pytest.approx(1, abs=1e-4)
    assert {p["plane"] for p in result["per_plane"]} == {1, 2}
    assert len(result["per_ev"]) == 8
    assert 0 < result["jain"] <= 1
    assert result["bins"]["width_ms"] == 100
    json.dumps(result)


@pytest.mark.parametrize("op", ["write", "write_imm"])
@pytest.mark.parametrize("both", [False, True])
def test_four_queue_pairs_several_sizes(serve, op, both):
    server = serve(once=True)
    plan = Plan(op=op, qps=4, depth=8, both=both, size=20_000, region=200_000)
    rows = [Row(size=size, iters=20) for size in (1, 700, 20_000)]
    results = go(server, plan, *rows)
    assert [r["size"] for r in results] == [1, 700, 20_000]
    for result in results:
        check(result, plan)
        assert result["iters"] == 80
        assert result["bytes"] == 80 * result["size"] * (2 if both else 1)
        if both:
            assert result["to_peer"]["bytes"] == result["from_peer"]["bytes"] == 80 * result["size"]
    assert server.join()
    assert server.names() == ["listening", "start", "row", "row", "row", "row", "end"]
    arrived = server.told[-2][1]["arrived"]
    assert sum(arrived["bytes"]) + arrived["rest"] == 80 * 20_000


@pytest.mark.parametrize("progress", ["caller", "thread"])
@pytest.mark.parametrize("size", [1, 64, 20_000])
def test_latency(serve, progress, size):
    server = serve(progress=progress)
    plan = Plan(op="lat", size=size, region=size)
    (result,) = go(server, plan, Row(size=size, iters=40))
    check(result, plan)
    assert result["iters"] == 40
    assert 0 < result["lat_us"]["min"] <= result["lat_us"]["p50"] <= result["lat_us"]["max"]
    assert result["one_way_us"]["min"] == pytest.approx(result["lat_us"]["min"] / 2, abs=0.002)


def test_a_thread_at_either_end_only(serve):
    plan = Plan(op="lat", size=8, region=8)
    (result,) = go(serve(progress="thread"), plan, Row(size=8, iters=20))
    assert result["iters"] == 20
    (result,) = go(serve(), plan, Row(size=8, iters=20), local={"progress": "thread"})
    assert result["iters"] == 20


def test_a_duration_and_progress(serve):
    seen = []
    plan = Plan(qps=2, depth=4, size=4096, region=1 << 20)
    row = Row(size=4096, duration=0.35)
    (result,) = go(
        serve(), plan, row, progress=lambda row, elapsed, moved: seen.append((row, elapsed, moved))
    )
    check(result, plan)
    assert result["seconds"] >= 0.35
    assert result["bytes"] > 0
    assert len(result["bins"]["bytes"]) >= 3
    assert result["bins"]["at"] == "receiver"
    assert seen
    assert all(r == row for r, _, _ in seen)


def test_idle_queue_pairs(serve):
    (result,) = go(serve(), Plan(op="idle", qps=10, size=1, region=1), Row(size=1, duration=0.2))
    assert result["bytes"] == 0
    assert result["cpu_s_per_gb"] is None
    assert result["qp_errors"] == 0


def test_one_client_after_another(serve):
    server = serve()
    for _ in range(2):
        (result,) = go(server, Plan(size=8, region=8), Row(size=8, iters=5))
        assert result["iters"] == 5


def test_a_token_is_asked_for(serve):
    server = serve(token=b"secret")
    plan, row = Plan(size=8, region=8), Row(size=8, iters=5)
    with pytest.raises(PeerError, match="token"):
        go(server, plan, row)
    with pytest.raises(PeerError, match="token"):
        go(server, plan, row, token=b"guess")
    (result,) = go(server, plan, row, token=b"secret")
    assert result["iters"] == 5


def test_nobody_listens(serve):
    server = serve()
    server.stop()
    with pytest.raises(PeerError, match="nobody answers"):
        go(server, Plan(), Row(size=8, iters=1), timeout=0.2)


def test_no_plane_in_common(serve):
    with pytest.raises(PeerError, match="address family"):
        go(serve(), Plan(size=8, region=8), Row(size=8, iters=1), local={"planes": ("::1",)})


def test_interrupted_rows_are_partial(serve):
    server = serve()
    plan = Plan(depth=4, size=4096, region=4096)

    async def main():
        task = None

        def progress(row, elapsed, moved):
            task.cancel()

        mine = Local(planes=("127.0.0.71", "127.0.0.72"), evs=4)
        rows = [Row(size=4096, duration=60), Row(size=64, duration=60)]
        task = asyncio.create_task(measure("127.0.0.61", server.port, mine, plan, rows, progress=progress))
        return await task

    (result,) = asyncio.run(main())
    assert result["partial"]
    assert result["size"] == 4096
    assert 0 < result["seconds"] < 60
    (again,) = go(server, plan, Row(size=8, iters=5))
    assert again["iters"] == 5


def speak(server, *messages, answers):
    """Say messages as a client without manners; return what is answered."""

    async def main():
        reader, writer = await asyncio.open_connection("127.0.0.61", server.port)
        got = []
        try:
            for message in messages:
                body = message if isinstance(message, bytes) else json.dumps(message).encode()
                writer.write(struct.pack(">I", len(body)) + body)
            for _ in range(answers):
                (length,) = struct.unpack(">I", await reader.readexactly(4))
                got.append(json.loads(await reader.readexactly(length)))
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()
            await writer.wait_closed()
        return got

    return asyncio.run(main())


HELLO = {
    "type": "hello", "software": "x", "versions": 1, "capabilities": ["mailbox-1"], "requires": [], "nonce": "0" * 64,
    "auth": False,
}  # fmt: skip
PLAN = Plan(size=8, region=8).to_json()
PLANE = {"number": 1, "address": "127.0.0.71", "udp_port": 9, "mtu": 1500, "rcvbuf": 100_000}
OFFER = {
    "planes": [PLANE], "qps": [[17, 5]], "addr": 4096, "rkey": 7, "length": 8, "pmtu": 1024, "mpr_dest": 8, "host": "",
}  # fmt: skip
OPEN = {"type": "perf", "step": "open", "plan": PLAN, "offer": OFFER}
PAIRS = {"type": "perf", "step": "pairs", "pairs": [[1, 1]], "pmtu": 1024}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"plan": {**PLAN, "region": 1 << 40}}, "region"),
        ({"plan": {**PLAN, "qps": 2048, "depth": 8192}}, "more than"),
        ({"plan": None}, "malformed"),
        ({"offer": {**OFFER, "qps": [[17, 5]] * 2}}, "queue pairs"),
        ({"offer": {**OFFER, "planes": [{**PLANE, "address": "::"}]}}, "address"),
        ({"toward": ["nowhere"]}, "toward"),
        ({"step": "row"}, "out of step"),
    ],
)
def test_hostile_clients_are_refused_with_a_reason(serve, changes, words):
    server = serve()
    answers = speak(server, HELLO, {**OPEN, **changes}, answers=2)
    assert answers[0]["type"] == "hello"
    assert answers[1]["type"] == "error"
    assert words in answers[1]["message"]
    (result,) = go(server, Plan(size=8, region=8), Row(size=8, iters=5))
    assert result["iters"] == 5


ROW = Row(size=8, iters=1).to_json()


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (None, "malformed"),
        ({**ROW, "size": 9}, "size must be 1 to 8"),
        ({**ROW, "iters": 0}, "iterations or a duration"),
        ({**ROW, "size": "8"}, "size must be"),
        ({**ROW, "region": 9}, "region must be"),
        ({**ROW, "duration_us": 1 << 60}, "duration_us must be"),
    ],
)
def test_hostile_rows_are_refused_with_a_reason(serve, row, words):
    asked = {"type": "perf", "step": "row", "row": row, "imm": False}
    answers = speak(serve(), HELLO, OPEN, PAIRS, asked, answers=4)
    assert [a["type"] for a in answers] == ["hello", "perf", "perf", "error"]
    assert words in answers[3]["message"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"pairs": [[1, 9]]}, "do not fit"),
        ({"pairs": [[1, 1], [1, 2]]}, "do not fit"),
        ({"pairs": "1"}, "no planes"),
        ({"pmtu": 1 << 20}, "pmtu must be"),
        ({"pmtu": 1000}, "multiple"),
        ({"pmtu": None}, "pmtu must be"),
        ({"step": "go"}, "out of step"),
    ],
)
def test_hostile_choices_are_refused_with_a_reason(serve, changes, words):
    answers = speak(serve(), HELLO, OPEN, {**PAIRS, **changes}, answers=3)
    assert [a["type"] for a in answers] == ["hello", "perf", "error"]
    assert words in answers[2]["message"]


def test_too_little_memory_is_refused(serve):
    plan = {**PLAN, "size": 8}
    answers = speak(serve(), HELLO, {**OPEN, "plan": plan, "offer": {**OFFER, "length": 4}}, PAIRS, answers=3)
    assert "less memory" in answers[2]["message"]


def test_a_second_client_is_told_to_wait(serve):
    server = serve()

    async def main():
        reader, writer = await asyncio.open_connection("127.0.0.61", server.port)
        for message in (HELLO, OPEN):
            body = json.dumps(message).encode()
            writer.write(struct.pack(">I", len(body)) + body)
        for _ in range(2):
            (length,) = struct.unpack(">I", await reader.readexactly(4))
            await reader.readexactly(length)
        mine = Local(planes=("127.0.0.71",), evs=1)
        with pytest.raises(PeerError, match="another measurement"):
            await measure("127.0.0.61", server.port, mine, Plan(), [Row(size=8, iters=1)], timeout=1.0)
        writer.close()
        await writer.wait_closed()

    asyncio.run(main())


def test_strangers_who_say_nothing_keep_nobody_out(serve):
    server = serve()

    async def main():
        silent = [await asyncio.open_connection("127.0.0.61", server.port) for _ in range(70)]
        mine = Local(planes=("127.0.0.71",), evs=1)
        (result,) = await measure(
            "127.0.0.61", server.port, mine, Plan(size=8, region=8), [Row(size=8, iters=5)]
        )
        assert result["iters"] == 5
        (length,) = struct.unpack(">I", await silent[0][0].readexactly(4))
        told = json.loads(await silent[0][0].readexactly(length))
        assert (told["type"], told["code"]) == ("error", "busy")
        assert await silent[0][0].read() == b""
        assert not silent[-1][0].at_eof()  # the newest: those who came first made room
        for _, writer in silent:
            writer.close()

    asyncio.run(main())
    made_room = [d for what, d in server.told if what == "refused" and "made room" in d["why"]]
    assert len(made_room) == 70 + 1 - 32


def test_what_a_server_tells_names_the_peer_once(serve):
    server = serve()
    speak(server, HELLO, answers=1)
    speak(server, answers=0)
    wanted = {"closed the connection during set-up"}
    while len([1 for what, _ in server.told if what == "refused"]) < 2:
        os.sched_yield()
    assert {d["why"] for what, d in server.told if what == "refused"} == wanted


def test_a_watch_that_cannot_be_is_told_before_anybody_is_dialled(serve):
    server = serve()

    def watch(ends):
        raise UsageError("no such file")

    with pytest.raises(UsageError, match="no such file"):
        go(server, Plan(size=8, region=8), Row(size=8, iters=1), watch=watch)
    assert server.names() == ["listening"]


def test_planes_of_other_hosts_are_wrong_use(serve):
    with pytest.raises(UsageError, match=r"203\.0\.113\.1"):
        go(serve(), Plan(size=8, region=8), Row(size=8, iters=1), local={"planes": ("203.0.113.1",)})


def test_a_server_without_planes_uses_what_its_client_reached(serve):
    server = serve(planes=())
    plan, row = Plan(size=8, region=8), Row(size=8, iters=5)
    (result,) = go(server, plan, row, local={"planes": ("127.0.0.71",)})
    assert {p["plane"] for p in result["per_plane"]} == {1}
    (result,) = go(server, plan, row, toward=("127.0.0.63", "127.0.0.64"))
    assert len(result["per_ev"]) == 8
    with pytest.raises(PeerError, match=r"203\.0\.113\.1"):
        go(server, plan, row, toward=("203.0.113.1",))


def test_planes_stand_in_the_order_their_client_means():
    local = Local(planes=("10.0.0.1", "10.0.0.2", "fe80::1%eth1"))
    assert _planes(local, [], "10.0.0.1") == local.planes
    assert _planes(local, ["10.0.0.2"], "10.0.0.1") == ("10.0.0.2", "10.0.0.1", "fe80::1%eth1")
    assert _planes(local, ["fe80::1", "10.9.9.9"], "10.0.0.1") == ("fe80::1%eth1", "10.0.0.1", "10.0.0.2")
    anywhere = Local(planes=())
    assert _planes(anywhere, [], "::ffff:10.0.0.3") == ("10.0.0.3",)
    assert _planes(anywhere, ["10.0.0.2", "10.0.0.2"], "10.0.0.1") == ("10.0.0.2",)


def test_a_server_that_ends_meanwhile(serve):
    server = serve()
    stopped = []

    def progress(row, elapsed, moved):
        if not stopped:
            stopped.append(True)
            server.stop()

    rows = []
    with pytest.raises(PeerError, match=r"127\.0\.0\.61:\d+: closed the connection during the measurement"):
        go(
            server, Plan(depth=4, size=4096, region=4096), Row(size=4096, duration=30), progress=progress,
            on_row=rows.append,
        )  # fmt: skip
    assert stopped
    assert [(r["partial"], r["bytes"] > 0) for r in rows] == [(True, True)]


def test_no_icrc_takes_both_ends(serve):
    plan, row = Plan(qps=2, size=20_000, region=20_000), Row(size=20_000, iters=20)
    for here, there in ((True, True), (True, False), (False, True), (False, False)):
        server = serve(icrc=there)
        (result,) = go(server, plan, row, local={"icrc": here})
        check(result, plan)
        started = next(details for what, details in server.told if what == "start")
        asked = [end for end, keeps in (("client", here), ("server", there)) if not keeps]
        for said in (result, started):
            assert said["icrc"] is (here or there)
            assert said["icrc_off_asked"] == asked


@pytest.mark.parametrize("choice", [False, None, 0])
def test_a_client_that_leaves_the_icrc_off_by_itself_is_refused(serve, choice):
    asked = {**OPEN, "offer": {**OFFER, "icrc_off": True}}
    answers = speak(serve(), HELLO, asked, {**PAIRS, "icrc": choice}, answers=3)
    assert [a["type"] for a in answers] == ["hello", "perf", "error"]
    assert "about the iCRC" in answers[2]["message"]


def test_threads_are_kept_on_cpus_for_as_long_as_they_measure(serve):
    plan, row = Plan(size=64, region=64), Row(size=64, iters=5)
    before = os.sched_getaffinity(0)
    seen = []
    first = min(before)
    for progress in ("caller", "thread"):
        (result,) = go(
            serve(), plan, row, local={"cpus": (first,), "progress": progress},
            on_row=lambda _: seen.append((os.sched_getaffinity(0), masks().count(str(first)))),
        )  # fmt: skip
        assert result["iters"] == 5
    assert os.sched_getaffinity(0) == before
    assert seen[0][0] == {first}
    assert seen[1][0] == before
    assert all(count >= 1 for _, count in seen)


def masks():
    """What each thread of this process may use, in the kernel's words."""
    return [
        line.split()[1]
        for task in Path("/proc/self/task").iterdir()
        for line in (task / "status").read_text().splitlines()
        if line.startswith("Cpus_allowed_list:")
    ]


def test_rows_walk_no_further_than_they_say(serve):
    server = serve()
    plan = Plan(qps=2, depth=4, size=8192, region=1 << 20)
    rows = [
        Row(size=64, iters=3000, region=4096),
        Row(size=8192, iters=20, region=16384),
        Row(size=64, iters=10),
    ]
    results = go(server, plan, *rows)
    assert [r["iters"] for r in results] == [6000, 40, 20]
    with pytest.raises(PeerError, match="region"):
        go(server, plan, Row(size=64, iters=1, region=(1 << 20) + 1))


def test_a_token_and_a_meddler_with_rows(serve):
    """With a token, nothing that is not sealed counts."""
    answers = speak(
        serve(token=b"secret"), {**HELLO, "auth": True}, {"type": "proof", "mac": "0" * 64}, answers=2
    )
    assert [a["type"] for a in answers] == ["hello", "error"]
