"""One end of a measurement: device, memory, queue pairs, and their traffic. Leaves the conversation to others."""

from __future__ import annotations

import errno
import mmap
import random
import time
from collections.abc import Sequence
from typing import Any

from softmrc._core import PerfPingPong, PerfPump
from softmrc.cpus import Pinned
from softmrc.device import refusals
from softmrc.endpoint.knobs import DEFAULT_PMTU, Knobs
from softmrc.endpoint.offer import PlaneOffer, QpOffer
from softmrc.endpoint.steering import Steering, Ways, guarded
from softmrc.errors import PeerError, UsageError, VerbsError
from softmrc.perf.local import Local
from softmrc.perf.offer import PerfOffer
from softmrc.perf.plan import Plan, Row
from softmrc.perf.usage import host_mark
from softmrc.verbs import (
    CQ,
    MR,
    PD,
    QP,
    Access,
    Context,
    MrcQPAttr,
    PeerPlane,
    QPAttr,
    QPCap,
    QPInitAttr,
    SoftQPAttr,
    spread_routes,
)

__all__ = ["Ends"]

_HOLD_SECONDS = 10.0
_LAT_DEPTH = 256
_PATTERN = bytes(range(251)) * 4177


class Ends:
    """Opened for one plan; closed when the session is over."""

    def __init__(self, local: Local, plan: Plan, *, receives: bool, sends: bool) -> None:
        """Open the device and make everything that can be made without the peer.

        Args:
            local: this end's own wishes.
            plan: what is measured.
            receives: the peer writes to us.
            sends: we write to the peer.

        Raises:
            UsageError: a plane is no address of this host.
            VerbsError: a socket could not be opened for another reason.
        """
        self.plan, self.local = plan, local
        self.receives, self.sends = receives, sends
        self.events: dict[str, int] = {"assumed_bad": 0, "qp_error": 0}
        self.pmtu = 0
        self.icrc = True
        self.peer_icrc_off = False
        """The peer asked to leave the iCRC off."""
        self.pairs: list[tuple[int, int]] = []
        self._knobs = Knobs(hold_time=_HOLD_SECONDS, delay_mark=local.delay_mark_us / 1e6)
        known = Steering.of(local.fabric)
        self._steering = Steering(None) if local.via else known
        self._ways = Ways()
        self._base_rtt = 0.0
        planes = guarded(
            [known.reach(self._steering.plane({"address": p}, local.evs)) for p in local.planes], local.icrc
        )
        try:
            self.ctx = Context(
                "perf", planes, evs_per_plane=local.evs, udp_port=0, rcvbuf=local.rcvbuf,
                sndbuf=local.sndbuf, progress=local.progress, spin_us=local.spin_us, batching=local.batching,
                cpus=list(local.cpus) if local.cpus and self.needs_immediates else None,
            )  # fmt: skip
        except VerbsError as error:
            if error.errno == errno.EADDRNOTAVAIL:
                raise UsageError(error.strerror or str(error)) from None
            raise
        self._pinned = Pinned(())
        try:
            if not self.needs_immediates:
                self._pinned = Pinned(local.cpus)
            self._make()
        except BaseException:
            self.close()
            raise
        self.ctx.pump.add_sink(self._on_event)
        self.pump: PerfPump | None = None
        self.rally: PerfPingPong | None = None

    def _make(self) -> None:
        plan = self.plan
        self.source = _memory(plan.region if self.sends or plan.op == "lat" else plan.size)
        self.landing = _memory(plan.region if self.receives or plan.op == "lat" else plan.size)
        self.pd = PD(self.ctx)
        self._source_mr = MR(self.pd, self.source, Access.LOCAL_WRITE)
        self._landing_mr = MR(self.pd, self.landing, Access.LOCAL_WRITE | Access.REMOTE_WRITE)
        self._depth = _LAT_DEPTH if plan.op == "lat" else plan.depth
        self._recvs = 2 * self._depth if plan.op in ("write_imm", "lat") else 0
        self.cq = CQ(self.ctx, plan.qps * (self._depth + self._recvs) + 64)
        cap = QPCap(max_send_wr=self._depth, max_recv_wr=self._recvs + 16)
        self.qps = [QP(self.pd, QPInitAttr(scq=self.cq, rcq=self.cq, cap=cap)) for _ in range(plan.qps)]
        self._psns = [self.ctx.driver.random_psn() for _ in self.qps]
        self.planes = self.ctx.planes

    def offer(self) -> PerfOffer:
        """Return what the peer must know."""
        return PerfOffer(
            planes=tuple(
                PlaneOffer(
                    number=p["port"], address=p["address"], udp_port=p["udp_port"], mtu=p["mtu"],
                    rcvbuf=p["rcvbuf"],
                )
                for p in self.planes
            ),
            qps=tuple(QpOffer(qpn=qp.qp_num, psn=psn) for qp, psn in zip(self.qps, self._psns, strict=True)),
            addr=self._landing_mr.iova,
            rkey=self._landing_mr.rkey,
            length=self._landing_mr.length,
            pmtu=self.local.pmtu or DEFAULT_PMTU,
            mpr_dest=self._knobs.mpr,
            host=host_mark(),
            icrc_off=not self.local.icrc,
        )  # fmt: skip

    def connect(self, peer: PerfOffer, pairs: Sequence[tuple[int, int]], pmtu: int) -> None:
        """Bring the queue pairs up: pairs of (our plane, its plane)."""
        self.pairs, self.pmtu = list(pairs), pmtu
        self.peer_icrc_off = peer.icrc_off
        self.icrc = self.local.icrc or not peer.icrc_off
        remote = {p.number: p for p in peer.planes}
        own = {p["port"]: p["address"] for p in self.planes}
        self._ways = self._steering.ways(
            [(own[mine], remote[its].address, mine, self._evs(mine)) for mine, its in pairs]
        )
        planes = [
            PeerPlane(
                mine,
                remote[its].address,
                remote[its].udp_port,
                its,
                self._ways.routes.get(mine) or spread_routes(self._evs(mine), self.local.via),
            )
            for mine, its in pairs
        ]
        room = sum(remote[its].rcvbuf for _, its in pairs) // 4
        self._base_rtt = self._steering.base_rtt(self._knobs.base_rtt, self._ways)
        room = self._steering.window(room, self._ways, self._base_rtt)
        window = max(room, pmtu)  # of one and of all: queue pairs share what goes to one peer
        for qp, psn, its_end in zip(self.qps, self._psns, peer.qps, strict=True):
            self._bring_up(qp, psn, its_end, planes, pmtu, window, peer.mpr_dest)
        self._make_traffic(peer)

    def _bring_up(
        self, qp: QP, psn: int, its: QpOffer, planes: list[PeerPlane], pmtu: int, window: int, mpr: int
    ) -> None:
        knobs = self._knobs
        wimm = min(max(self._recvs, 1), 4096)
        active, spare = self._draw_evs()
        qp.to_init(
            QPAttr(qp_access_flags=Access.LOCAL_WRITE | Access.REMOTE_WRITE),
            soft=SoftQPAttr(
                ev_set=(active, spare), ev_policy=knobs.ev_policy, ev_run=self.plan.ev_run,
                ev_table={**knobs.ev_table(), "ecn_steering": self.local.ecn_steering},
                cc_algorithm=knobs.cc_algorithm, cc_config={"min_base_rtt_ns": int(self._base_rtt * 1e9)},
            ),
        )  # fmt: skip
        qp.to_rtr(
            QPAttr(dest_qp_num=its.qpn, rq_psn=its.psn, path_mtu=pmtu),
            MrcQPAttr(mpr_dest=knobs.mpr, max_wimm_dest=wimm, cap=0),
            SoftQPAttr(
                peer_planes=planes, trimming=self._steering.trimming(None, self._ways), icrc=self.icrc,
                rq_empty_grace_ns=int(_HOLD_SECONDS * 1e9),
                base_rtt_ns=int(self._base_rtt * 1e9), delay_mark_ns=int(knobs.delay_mark * 1e9),
                max_cwnd=window,
            ),
        )  # fmt: skip
        self._steering.denial.watch(qp, self._ways)
        qp.to_rts(
            QPAttr(sq_psn=psn),
            MrcQPAttr(
                mpr=min(knobs.mpr, mpr), max_wimm=wimm, timeout=knobs.timeout,
                linear_cnt=knobs.linear_cnt, exp_cnt=knobs.exp_cnt,
            ),
            SoftQPAttr(
                hold_time_ns=int(knobs.hold_time * 1e9),
                min_ack_timeout_ns=int(knobs.min_ack_timeout * 1e9),
                reorder_min_time_ns=int(knobs.reorder_min_time * 1e9),
            ),
        )  # fmt: skip

    def _draw_evs(self) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Draw the EVs of a queue pair, in use and spare; anew for each, so that they do not walk the paths in step."""
        active: list[tuple[int, int]] = []
        spare: list[tuple[int, int]] = []
        for plane, _ in self.pairs:
            evs = self._evs(plane)  # those that follow each other are on different paths
            first = random.randrange(len(evs)) if self.local.backups else 0
            turned = evs[first:] + evs[:first]
            used = turned[: len(evs) - self.local.backups]
            active += [(ev, plane) for ev in random.sample(used, len(used))]
            spare += [(ev, plane) for ev in turned[len(used) :]]
        return active, spare

    def path_name(self, plane: int, ev: int) -> str:
        """Return the way of an EV through a known fabric, else ""."""
        return self._ways.names.get((plane, ev), "")

    def _evs(self, plane: int) -> list[int]:
        return next(p["evs"] for p in self.planes if p["port"] == plane)

    def _make_traffic(self, peer: PerfOffer) -> None:
        if peer.length < self.plan.size:
            raise PeerError("the peer offers less memory than a message needs")
        common: dict[str, Any] = {
            "cq": self.cq.handle, "lkey": self._source_mr.lkey, "rkey": peer.rkey, "target_addr": peer.addr,
            "recv_depth": self._recvs, "own_thread": self.local.progress == "thread",
        }  # fmt: skip
        with refusals("prepare traffic"):
            if self.plan.op == "lat":
                self.rally = PerfPingPong(
                    self.ctx.driver, {**common, "qpn": self.qps[0].qp_num}, self.source, self.landing
                )
            else:
                mine = {
                    "qpns": [qp.qp_num for qp in self.qps], "target_length": peer.length,
                    "watch": self.receives, "bin_ns": self.local.bin_ms * 1_000_000,
                }  # fmt: skip
                self.pump = PerfPump(self.ctx.driver, {**common, **mine}, self.source)

    # --- traffic --------------------------------------------------------------------------------------------

    @property
    def needs_immediates(self) -> bool:
        """True when latency cannot be told by memory: a driver thread moves the bytes behind our back."""
        return self.local.progress == "thread"

    def start(self, row: Row, *, imm: bool, serve: bool, warm_up: int = 0) -> None:
        """Start sending a row; in a ping-pong, serve or wait for the peer to."""
        with refusals("start"):
            if self.rally is not None:
                self.rally.start({
                    "size": row.size, "imm": imm, "serve": serve, "iters": row.iters,
                    "duration_ns": row.duration_ns, "warm_up": warm_up,
                })  # fmt: skip
            elif self.pump is not None:
                self.pump.start({
                    "imm": imm, "size": row.size, "depth": self.plan.depth_for(row.size), "iters": row.iters,
                    "duration_ns": row.duration_ns, "region": row.region,
                })  # fmt: skip

    def start_passive(self) -> None:
        """Count what arrives from now on."""
        if self.pump is not None:
            with refusals("start"):
                self.pump.start_passive()

    def clear_landing(self) -> None:
        """Forget what the peer wrote: the next ping-pong tells its messages from these bytes."""
        self.landing[:] = bytes(len(self.landing))

    def turn(self, most: float) -> bool:
        """Drive the transport for `most` seconds or until the row is done; returns whether it is.

        Raises:
            PeerError: the transport failed.
        """
        traffic = self.rally or self.pump
        assert traffic is not None
        with refusals("measure"):
            done = traffic.run(int(most * 1e9))
        self._look()
        return done

    def rest(self, seconds: float) -> None:
        """Drive the transport between rows, for so long.

        Raises:
            PeerError: the transport failed.
        """
        traffic = self.rally or self.pump
        assert traffic is not None
        with refusals("wait"):
            traffic.rest(int(seconds * 1e9))
        self._look()

    def _look(self) -> None:
        self._steering.denial.tick(time.monotonic())
        self.ctx.pump.run()
        if failure := self.ctx.driver.failure():
            raise PeerError(f"the transport failed: {failure}")

    def stop(self) -> None:
        """Post no more."""
        traffic = self.rally or self.pump
        if traffic is not None:
            with refusals("stop"):
                traffic.stop()

    def result(self) -> dict[str, Any]:
        """Return the counts of the row."""
        traffic = self.rally or self.pump
        assert traffic is not None
        return dict(traffic.result())

    def _on_event(self, event: dict[str, Any]) -> None:
        kind = event["kind"]
        if kind == "ev_state" and event["state"] == "assumed_bad":
            self.events["assumed_bad"] += 1
        elif kind == "qp_error":
            self.events["qp_error"] += 1

    def close(self) -> None:
        """Close everything. Idempotent."""
        self.pump = self.rally = None
        self._pinned.release()
        self.ctx.close()


def _memory(length: int) -> mmap.mmap:
    """Return memory whose pages are all there and all different from the zero page."""
    memory = mmap.mmap(-1, length)
    for at in range(0, length, len(_PATTERN)):
        memory[at : at + len(_PATTERN)] = _PATTERN[: length - at]
    return memory
