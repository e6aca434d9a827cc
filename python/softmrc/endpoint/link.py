"""The life of a connection: completions, failure, keep-alive, orderly end. `Connection` adds what users call.

Decides what a failure means, in which order things end, and who is told; leaves set-up to `setup.py`,
splitting and order of writes to `outbox.py`, mailbox rules to `mailbox.py`. The endpoint's thread calls `_drain`,
`_tick` and `_on_qp_error`; the rest may come from any thread. Transfers are finished with no lock held.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from softmrc.endpoint.causes import CAUSES, lost_error
from softmrc.endpoint.inbox import Inbox
from softmrc.endpoint.mailbox import RECV_DEPTH, Kind, Mailbox
from softmrc.endpoint.moves import follow
from softmrc.endpoint.offer import Offer
from softmrc.endpoint.outbox import Outbox
from softmrc.endpoint.region import Exposed, RemoteWindow
from softmrc.endpoint.relapse import Relapses
from softmrc.endpoint.stats import ConnectionStats, Notification, path_table
from softmrc.endpoint.transfer import Transfer
from softmrc.errors import CompletionError, MrcError, PeerClosedError, PeerError, UsageError, VerbsError
from softmrc.verbs import CQ, QP, WC, RecvWR, WCOpcode, WCStatus

if TYPE_CHECKING:
    from softmrc.endpoint.endpoint import Endpoint

__all__ = ["Link"]

_POLL = 256
_GOODBYE_SECONDS = 0.5
_Finished = list[tuple[Transfer, BaseException | None]]


class Link:
    """Both queue pairs of a connection, from their first completion to their end."""

    def __init__(
        self,
        ep: Endpoint,
        data: QP,
        mail: QP,
        cq: CQ,
        mailbox: Mailbox,
        peer: Offer,
        pairs: list[tuple[int, int]],
        pmtu: int,
        exposed: Exposed,
    ) -> None:
        """Made by `setup.establish`."""
        self._ep = ep
        self._data, self._mail, self._cq, self._mailbox = data, mail, cq, mailbox
        self._offer, self._pairs, self._pmtu = peer, pairs, pmtu
        self._exposed = exposed
        self.qp_numbers = (data.qp_num, mail.qp_num)
        """Of this end: for data, mail."""
        self.companions: set[QP] = set()
        """Further queue pairs to the same peer over the same planes."""
        self.path_names: Mapping[tuple[int, int], str] = {}
        """Ways through a known fabric, by plane and EV."""
        self.relapses = Relapses()
        """Planes that lose full packets."""
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._outbox = Outbox(data, ep.pd, ep.knobs.send_depth)
        self._state = "open"
        self._error: MrcError | None = None
        self._bye_seen = self._bye_answered = self._bye_confirmed = False
        self._heard = self._spoke = time.monotonic()
        self._noted, self._too_big = 0, ep.ctx.stats()["tx_too_big"]
        self._notes: Inbox[Notification] = Inbox(self._note_taken)
        self._mails: Inbox[bytes] = Inbox(self._mail_taken)
        self._windows: Inbox[RemoteWindow] = Inbox()
        self._window: RemoteWindow | None = None
        if peer.window is not None:
            self._window = RemoteWindow.from_json(peer.window)
        self._final: ConnectionStats | None = None

    @property
    def peer(self) -> str:
        """The peer in words: name and addresses of its planes."""
        its = {p.number: p for p in self._offer.planes}
        return f"{self._offer.name} ({', '.join(its[n].address for _, n in self._pairs)})"

    @property
    def closed(self) -> bool:
        """True once it was closed or lost."""
        return self._state in ("closed", "failed")

    def _send_mail(self, kind: Kind, data: bytes) -> Transfer:
        with self._lock:
            self._require_open()
            transfer = self._mailbox.enqueue(kind, data)
            self._post_mail()
        return transfer

    def _mail_taken(self, _: bytes) -> None:
        with self._lock:
            self._mailbox.on_taken()
            if not self.closed:
                self._post_mail()

    def _ping(self) -> Transfer:
        with self._lock:
            self._require_open()
            transfer = self._mailbox.ping()
            self._post_mail()
        return transfer

    def _post_mail(self) -> None:
        work = self._mailbox.take_work()
        if not work:
            return
        self._spoke = time.monotonic()
        try:
            self._mail.post_send(work)
        except VerbsError:
            self._ep.hub.call_soon(self._drain)  # the queue pair is in error; its completions say why

    def _post_recv(self, qp: QP, count: int) -> None:
        try:
            qp.post_recv([RecvWR() for _ in range(count)])
        except VerbsError:
            self._ep.hub.call_soon(self._drain)

    def _note_taken(self, _: Notification) -> None:
        with self._lock:
            if not self.closed:
                self._post_recv(self._data, 1)

    # --- completions (endpoint's thread) --------------------------------------------------------------------

    def _start(self) -> None:
        with self._lock:
            self._post_recv(self._data, self._ep.knobs.notification_depth)
            self._post_recv(self._mail, RECV_DEPTH)
        self._ep.hub.adopt(self, self._cq, (self._data.qp_num, self._mail.qp_num))
        self._ep.hub.call_soon(self._drain)

    def _drain(self) -> None:
        """Arm the notification, then take every completion: none can slip between the two."""
        finished: _Finished = []
        with self._lock:
            if self._state == "closed":
                return
            try:
                self._cq.req_notify()
                self._on_completions(self._poll_all(), finished)
            except PeerError as error:
                self._fail(error, finished)
            except VerbsError as error:
                self._fail(PeerError(f"the endpoint failed: {error}"), finished)
            if not self.closed:
                self._outbox.post()
                self._post_mail()
                self._answer_bye()
            self._changed.notify_all()
        for transfer, why in finished:
            transfer._finish(why)

    def _poll_all(self) -> list[WC]:
        out: list[WC] = []
        while True:
            n, wcs = self._cq.poll(_POLL)
            out += wcs
            if n < _POLL:
                return out

    def _on_completions(self, wcs: list[WC], finished: _Finished) -> None:
        # What succeeded did so before anything failed; a flush explains nothing, so another cause goes first.
        bad: WC | None = None
        for wc in wcs:
            if wc.status is WCStatus.SUCCESS:
                self._on_success(wc, finished)
            elif bad is None or bad.status is WCStatus.WR_FLUSH_ERR:
                bad = wc
        if bad is not None:
            self._fail(self._explain(bad), finished)

    def _on_success(self, wc: WC, finished: _Finished) -> None:
        if self.closed:
            return
        self._heard = time.monotonic()
        if wc.opcode is WCOpcode.RDMA_WRITE:
            if wc.qp_num == self._data.qp_num:
                finished += [(t, None) for t in self._outbox.on_completed(wc.wr_id)]
            else:
                finished += [(t, None) for t in self._mailbox.on_sent(wc.wr_id)]
            return
        if wc.qp_num == self._data.qp_num:
            self._noted += 1
            self._notes.put(Notification(imm=wc.imm_data, length=wc.byte_len))
            return
        self._mailbox.on_received(wc.imm_data, wc.byte_len, self._deliver)
        self._post_recv(self._mail, 1)

    def _deliver(self, kind: Kind, data: bytes) -> None:
        if kind is Kind.MESSAGE:
            self._mails.put(data)
            return
        try:
            control = json.loads(data)
            if "window" in control:
                self._windows.put(RemoteWindow.from_json(control["window"]))
            elif "bye" in control:
                self._on_bye(control["bye"])
            elif "bye_ok" in control:
                self._bye_confirmed = True
            elif "moved" in control:
                self._offer = follow(self, control["moved"])
        except (ValueError, TypeError, RecursionError):
            raise PeerError("the peer sent a malformed control message") from None

    # --- ends of life ---------------------------------------------------------------------------------------

    def _explain(self, wc: WC) -> MrcError:
        if wc.status is WCStatus.RETRY_EXC_ERR:
            return lost_error(self)
        if wc.status is WCStatus.WR_FLUSH_ERR:
            return self._broken_error()
        text = CAUSES.get(wc.status, "the request failed on this end")
        return CompletionError(int(wc.status), f"write to {self.peer}: {text} ({wc.status.name})")

    def _broken_error(self) -> PeerError:
        return PeerError(
            f"{self.peer} broke the connection: it used memory or the protocol in a way that is not allowed"
        )

    def _on_qp_error(self) -> None:
        """The engine moved one of our queue pairs to ERR; completions explain it better than the event."""
        self._drain()
        finished: _Finished = []
        with self._lock:
            if self._state == "open":
                self._fail(self._broken_error(), finished)
        for transfer, why in finished:
            transfer._finish(why)

    def _fail(self, error: MrcError, finished: _Finished) -> None:
        if self.closed:
            return
        self._state = "failed"
        self._error = error if not self._bye_seen else PeerClosedError(f"{self.peer} closed the connection")
        lost = error if isinstance(error, PeerError) else PeerError(str(error))
        # The request that failed gets the cause; those behind it were never judged by the peer.
        for i, transfer in enumerate(self._outbox.fail()):
            finished.append((transfer, error if i == 0 else PeerError(f"an earlier write failed: {error}")))
        finished += [(transfer, lost) for transfer in self._mailbox.fail()]
        for inbox in (self._notes, self._mails, self._windows):
            inbox.end(self._error if isinstance(self._error, PeerError) else lost)
        with contextlib.suppress(MrcError):  # it may be the device that failed
            self._final = self._snapshot()
        for qp in (self._data, self._mail):
            with contextlib.suppress(VerbsError):
                qp.to_err()
        self._changed.notify_all()

    def _on_bye(self, reason: Any) -> None:
        self._bye_seen = True
        if reason == "abort":
            gone: PeerError = PeerError(f"{self.peer} aborted the connection")
        else:
            gone = PeerClosedError(f"{self.peer} closed the connection")
        for inbox in (self._notes, self._mails, self._windows):
            inbox.end(gone)

    def _answer_bye(self) -> None:
        # Our own writes come first: the peer stays for them until it has this answer.
        if self._bye_seen and not self._bye_answered and self._outbox.idle() and self._mailbox.idle():
            self._bye_answered = True
            self._mailbox.enqueue(Kind.CONTROL, b'{"bye_ok":1}')
            self._post_mail()

    def _tick(self, now: float, keepalive: float) -> None:
        """Ask an idle peer for life. Endpoint's thread."""
        with self._lock:
            if self._state == "open" and not self._bye_seen and keepalive and now - self._spoke >= keepalive:
                self._mailbox.ping()
                self._post_mail()

    def _require_open(self) -> None:
        if self._ep.hub.forked():
            raise UsageError(
                "this process was forked from the one that owns the connection; open an endpoint here"
            )
        if self._state == "open" and not self._bye_seen:
            return
        if self._error is not None:
            raise self._error
        if self._bye_seen and self._state == "open":
            raise PeerClosedError(f"{self.peer} closed the connection")
        raise PeerClosedError(f"the connection to {self.peer} was closed on this end")

    def _snapshot(self) -> ConnectionStats:
        raw = self._data.stats()
        counters: dict[str, int] = raw["counters"]
        return ConnectionStats(
            peer=self.peer,
            state=self._state,
            bytes_written=self._outbox.bytes_done,
            notifications=self._noted,
            paths=path_table(self._data.path_stats(), self.path_names),
            rtx=sum(v for k, v in counters.items() if k.startswith("tx.rtx_")),
            data_tx=counters["tx.data"],
            data_rx=counters["rx.data"],
            srtt=raw["srtt_ns"] / 1e9,
            cwnd=raw["cwnd"],
            inflight=raw["inflight"],
            counters=dict(counters),
        )

    def close(self, timeout: float | None = None) -> None:
        """Close in good order.

        Wait until the peer has everything, say goodbye, free the queue pairs. Idempotent.

        Args:
            timeout: seconds to linger; None: `Knobs.linger`.

        Raises:
            PeerError: the peer did not acknowledge everything in time; the connection is freed all the same.
        """
        if self._ep.hub.forked() or self._state == "closed":
            return
        end = time.monotonic() + (self._ep.knobs.linger if timeout is None else timeout)
        unsent = False
        with self._lock:
            if self._state == "open":
                self._state = "closing"
                unsent = not self._linger(end)
        self._drop(PeerError(f"the connection to {self.peer} was closed before the write was done"))
        if unsent:
            raise PeerError(f"closing: {self.peer} did not acknowledge everything in time")

    def _linger(self, end: float) -> bool:
        def until(done: Callable[[], bool], deadline: float) -> bool:
            return self._changed.wait_for(
                lambda: self.closed or done(), max(0.0, deadline - time.monotonic())
            )

        if not until(lambda: self._outbox.idle() and self._mailbox.idle(), end):
            return False
        if self.closed:
            return True
        if not self._bye_seen:
            self._mailbox.enqueue(Kind.CONTROL, b'{"bye":1}')
            self._post_mail()
            if not until(lambda: self._bye_confirmed, end):
                return False
        if self._bye_seen:
            self._answer_bye()
            until(self._mailbox.idle, min(end, time.monotonic() + _GOODBYE_SECONDS))
        return True

    def abort(self) -> None:
        """Close at once; what is on its way fails. The peer is told if that takes no time."""
        if self._ep.hub.forked() or self._state == "closed":
            return
        with self._lock:
            if self._state == "open" and not self._bye_seen:
                self._state = "closing"
                goodbye = self._mailbox.enqueue(Kind.CONTROL, b'{"bye":"abort"}')
                self._post_mail()
                end = time.monotonic() + _GOODBYE_SECONDS
                while not self.closed and not goodbye.done() and not self._mailbox.idle():
                    if not self._changed.wait(max(0.0, end - time.monotonic())):
                        break
        self._drop(PeerError(f"the connection to {self.peer} was aborted on this end"))

    def _drop(self, why: PeerError) -> None:
        """Free everything now, queue pairs before what they use. Idempotent."""
        finished: _Finished = []
        try:
            with self._lock, contextlib.ExitStack() as last_to_first:
                if self._state == "closed":
                    return
                for free in (self._exposed.release, self._cq.close):
                    last_to_first.callback(free)
                last_to_first.callback(self._ep.hub.forget, self._cq, self.qp_numbers)
                for free in (self._mailbox.close, self._outbox.release, self._mail.close, self._data.close):
                    last_to_first.callback(free)
                self._fail(why, finished)
                self._state = "closed"
        finally:
            for transfer, error in finished:
                transfer._finish(error)
