"""The end that asks: connects, agrees on a plan, runs its rows one after another."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

from softmrc.endpoint.exchange import TcpExchange
from softmrc.endpoint.handshake import BUSY, Handshake, Refused
from softmrc.endpoint.steering import meeting_point
from softmrc.errors import PeerError
from softmrc.perf.agree import propose
from softmrc.perf.counters import Counters
from softmrc.perf.ends import Ends
from softmrc.perf.local import Local
from softmrc.perf.offer import PerfOffer, icrc_agreed
from softmrc.perf.plan import Plan, Row
from softmrc.perf.result import read_report, row_result
from softmrc.perf.talk import Talk
from softmrc.perf.usage import Usage, host_mark

__all__ = ["SOFTWARE", "Progress", "Watch", "measure"]

SOFTWARE = "softmrc perf"
_PATIENCE = 10.0
_SILENCE = 30.0
"""A server that said nothing for this long while its word is due is gone, as it sees us."""
_TURN = 0.1
_LOOK_SECONDS = 1.0
_PROOF_SECONDS = 5.0
_DRAIN_SECONDS = 15.0
Progress = Callable[[Row, float, int], None]
"""Told about ten times a second: the row, seconds since it began, bytes so far."""
Watch = Callable[[Ends], contextlib.AbstractContextManager[Callable[[], None]]]


async def measure(
    hosts: str | Sequence[str],
    port: int,
    local: Local,
    plan: Plan,
    rows: Sequence[Row],
    *,
    toward: Sequence[str] = (),
    token: bytes | None = None,
    timeout: float = 10.0,
    progress: Progress | None = None,
    on_row: Callable[[dict[str, Any]], None] | None = None,
    watch: Watch | None = None,
) -> list[dict[str, Any]]:
    """Measure rows with a server.

    Args:
        hosts: where it listens; the first that answers is taken.
        port: its TCP port.
        local: what this end decides for itself.
        plan: what holds for all rows.
        rows: what is measured, in order.
        toward: addresses of the server that our planes lead to, in their order; none: it goes by its own order.
        token: shared secret.
        timeout: seconds to wait for a server that is not there yet, or is busy.
        progress: called while a row runs.
        on_row: called with each result.
        watch: entered with our end before anybody is dialled; what it yields is called about once a second, on the
            thread that drives it.

    Returns:
        A result a row. When the task is cancelled meanwhile, the row at hand is the last one and `partial`.

    Raises:
        UsageError: a plane is no address of this host.
        PeerError: nobody answers, the server refuses, or no packet comes through. When that happens within a row,
            `on_row` is given first what there is of it, `partial`.
    """
    ends = Ends(local, plan, receives=plan.both, sends=plan.op != "idle")
    try:
        names = [hosts] if isinstance(hosts, str) else list(hosts)
        with watch(ends) if watch is not None else contextlib.nullcontext(_nothing) as look:
            exchange, shake = await _dial(names, port, token, timeout)
            talk = Talk(shake)
            try:
                session = _Session(talk, ends, toward, progress, look)
                await session.agree()
                exchange.stage = "the measurement"
                return await _run_all(session, rows, on_row)
            finally:
                await talk.close()
                await exchange.close()
    finally:
        ends.close()


def _nothing() -> None:
    return


async def _run_all(
    session: _Session, rows: Sequence[Row], on_row: Callable[[dict[str, Any]], None] | None
) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = []
    for row in rows:
        result, failure = await session.run(row)
        results.append(result)
        if on_row is not None:
            on_row(result)
        if failure is not None:
            raise failure
        if result["partial"]:
            return results
    await session.bye()
    return results


async def _dial(
    hosts: Sequence[str], port: int, token: bytes | None, timeout: float
) -> tuple[TcpExchange, Handshake]:
    """Connect and prove; a server that is not there yet, or busy, is tried again until the time is over."""
    end = time.monotonic() + timeout
    why = "no host was given"
    while True:
        for host in hosts:
            try:
                return await _try(host, port, token, timeout)
            except Refused as refusal:
                if refusal.code != BUSY:
                    raise
                why = str(refusal)
            except (OSError, TimeoutError) as error:
                why = f"nobody answers at {host} port {port}: {str(error) or 'no answer in time'}"
        if time.monotonic() >= end:
            raise PeerError(why)
        await asyncio.sleep(random.uniform(0.05, 0.2))


async def _try(host: str, port: int, token: bytes | None, timeout: float) -> tuple[TcpExchange, Handshake]:
    exchange = TcpExchange(
        *await asyncio.wait_for(asyncio.open_connection(meeting_point(host), port), timeout)
    )
    shake = Handshake(exchange, initiator=True, software=SOFTWARE, token=token)
    try:
        await asyncio.wait_for(shake.open(), _PATIENCE)
    except TimeoutError:
        await exchange.close()
        raise PeerError(f"{host} port {port} does not answer like softmrc") from None
    except BaseException:
        await exchange.close()
        raise
    return exchange, shake


class _Session:
    """The rows of one plan with one server."""

    def __init__(
        self,
        talk: Talk,
        ends: Ends,
        toward: Sequence[str],
        progress: Progress | None,
        look: Callable[[], None],
    ) -> None:
        self._talk, self._ends, self._toward, self._progress, self._look = talk, ends, toward, progress, look
        self._looked_at = 0.0
        self._same_host = False
        self._imm = ends.plan.op == "write_imm"

    async def agree(self) -> None:
        """Offer, be offered, connect, and see a packet come through."""
        ends, talk = self._ends, self._talk
        mine = ends.offer()
        await talk.send("open", plan=ends.plan.to_json(), offer=mine.to_json(), toward=list(self._toward))
        answer = await talk.next("opened", timeout=_PATIENCE)
        theirs = PerfOffer.from_json(answer.get("offer"), ends.plan.qps)
        pairs, pmtu = await propose(talk, mine, theirs, _PATIENCE)
        ends.connect(theirs, pairs, pmtu)
        self._same_host = bool(theirs.host) and theirs.host == host_mark()
        if ends.plan.op == "lat":
            # A message of several packets is told by its immediate; so is any when bytes land unseen.
            self._imm = ends.needs_immediates or answer.get("imm") is True
        await self._prove()

    async def _prove(self) -> None:
        """One small message on each queue pair: the answer to "does anything come through?" before figures are."""
        if self._ends.plan.op == "idle":
            return
        await self._begin(Row(size=1, iters=1), imm=self._imm, warm_up=0)
        end = time.monotonic() + _PROOF_SECONDS
        while not self._ends.turn(0.01):
            if time.monotonic() >= end:
                raise PeerError(
                    f"the server answers over TCP, but no MRC packet comes back within {_PROOF_SECONDS:g} s on any "
                    "plane: is UDP filtered, or is the MTU smaller than it says?"
                )
            if not await self._talk.quiet():
                await self._talk.next()
        await self._finish()

    async def _begin(self, row: Row, *, imm: bool, warm_up: int) -> None:
        ends = self._ends
        await self._talk.send("row", row=row.to_json(), imm=imm)
        if ends.plan.op == "lat":
            ends.clear_landing()
        elif ends.plan.op == "idle":
            ends.start_passive()
        await self._talk.next("ready", meanwhile=lambda: ends.rest(0.001), timeout=_SILENCE)
        await self._talk.send("go")
        if ends.plan.op != "idle":
            ends.start(row, imm=imm, serve=True, warm_up=warm_up)

    async def _finish(self) -> dict[str, Any]:
        await self._talk.send("done")
        return read_report(
            await self._talk.next("report", meanwhile=lambda: self._ends.rest(0.005), timeout=_SILENCE)
        )

    async def bye(self) -> None:
        """Tell the server that there are no more rows."""
        await self._talk.send("bye")

    async def run(self, row: Row) -> tuple[dict[str, Any], PeerError | None]:
        """Measure one row; beside it what ended it too early, if it was the server."""
        ends = self._ends
        imm = self._imm or (ends.plan.op == "lat" and row.size > ends.pmtu)
        warm_up = min(row.iters // 10, 100) if row.iters else 100
        before = Counters.of(ends)
        await self._begin(row, imm=imm, warm_up=warm_up)
        mark = Usage.now()
        failure: PeerError | None = None
        report: dict[str, Any] | None = None
        spent: Usage | None = None
        try:
            partial, spent = await self._run_to_end(row, mark)
        except PeerError as error:
            partial, failure = True, error
            self._cut()
        usage = spent or mark.since()
        raw = self._raw(mark, usage)
        if not partial:
            # The peer may still be sending: many counters take long to read, and it would wait for acknowledgements.
            try:
                report = await self._finish()
            except PeerError as error:
                partial, failure = True, error
        after = Counters.of(ends)
        icrc = icrc_agreed(client=not ends.local.icrc, server=ends.peer_icrc_off)
        result = row_result(
            ends.plan, row, pmtu=ends.pmtu, icrc=icrc, raw=raw, counters=after.since(before), usage=usage,
            report=report, same_host=self._same_host, partial=partial,
        )  # fmt: skip
        return result, failure

    def _cut(self) -> None:
        """End the row now: what completed until here counts."""
        self._ends.stop()
        with contextlib.suppress(PeerError):  # of a transport that failed: that is what is told already
            self._ends.turn(0.0)

    def _tell(self, row: Row, elapsed: float) -> None:
        if self._progress is not None:
            self._progress(row, elapsed, int(self._ends.result().get("bytes", 0)))
        now = time.monotonic()
        if now - self._looked_at >= _LOOK_SECONDS:
            self._looked_at = now
            self._look()

    async def _run_to_end(self, row: Row, mark: Usage) -> tuple[bool, Usage | None]:
        """Drive until the row is done.

        Returns:
            Whether it was cut short, and the CPU time up to the end of its duration when draining took longer.
        """
        ends = self._ends
        idle = ends.plan.op == "idle"
        late, left, elapsed = 0.0, -1, 0.0
        spent: Usage | None = None
        try:
            while not ends.turn(min(_TURN, max(row.duration - elapsed, 0.001)) if row.duration else _TURN):
                elapsed = time.monotonic() - mark.seconds
                if idle and elapsed >= row.duration:
                    return False, None
                if row.duration and elapsed >= row.duration and not idle:
                    # What is left is not part of the measurement, nor is its cost.
                    spent = spent or mark.since()
                    count = int(ends.result().get("in_flight", 0))
                    if count != left:
                        late, left = elapsed, count
                    if elapsed - late > _DRAIN_SECONDS:
                        raise PeerError(f"the server acknowledges nothing any more ({_DRAIN_SECONDS:g} s)")
                if not await self._talk.quiet():
                    await self._talk.next()  # raises: nothing is due now but an error
                self._tell(row, elapsed)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None:
                task.uncancel()
            self._cut()
            return True, spent
        return False, spent

    def _raw(self, mark: Usage, usage: Usage) -> dict[str, Any]:
        ends = self._ends
        raw = ends.result()
        if ends.pump is not None:
            raw |= {"sent": ends.pump.sent(), "arrived": ends.pump.arrived()}
        if ends.plan.op == "idle":
            start = int(mark.seconds * 1e9)
            raw |= {"from_ns": start, "to_ns": start + int(usage.seconds * 1e9)}
        return raw
