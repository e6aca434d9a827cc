"""Small messages over MRC itself.

Writes with immediate into a ring of the peer, on a queue pair of their own.

Decides the layout of the immediate, the use of slots and the credits; leaves posting and completions to
`Connection`, which calls every method here with its lock held.

Immediate: 2 bits kind, 1 bit "more fragments follow", 5 bits 0, 24 bits number. A message or control fragment
carries its own number, a credit the number of fragments consumed so far. A slot is written again only when
the peer has both acknowledged and consumed what was in it, so neither a retransmission nor a slow reader is
overwritten.
"""

from __future__ import annotations

import mmap
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum

from softmrc.endpoint.offer import MailboxOffer
from softmrc.endpoint.transfer import Transfer
from softmrc.errors import PeerError, UsageError
from softmrc.verbs import MR, PD, SGE, Access, SendWR, WROpcode

__all__ = ["MAX_MAIL", "RECV_DEPTH", "SEND_DEPTH", "SLOTS", "Kind", "Mailbox"]

SLOTS = 32
SLOT_SIZE = 16 * 1024
# A peer may have every slot and, at most one a consumed fragment, a credit on its way before we look.
RECV_DEPTH = 4 * SLOTS
SEND_DEPTH = 2 * SLOTS
MAX_MAIL = 16 << 20
_NUMBER = 0xFFFFFF
_MORE = 1 << 29


class Kind(IntEnum):
    """What a mailbox write is."""

    MESSAGE = 0
    CONTROL = 1
    CREDIT = 2


@dataclass
class _Outgoing:
    kind: Kind
    data: bytes
    transfer: Transfer
    offset: int = 0
    more: bool = field(default=True)


class Mailbox:
    """The two rings of one connection.

    Ours that the peer writes, and a copy of what we write to the peer's.
    """

    def __init__(self, pd: PD) -> None:
        """Allocate and register both rings."""
        self._ring = mmap.mmap(-1, SLOTS * SLOT_SIZE)
        self._in = MR(pd, self._ring, Access.LOCAL_WRITE | Access.REMOTE_WRITE)
        self._staging = mmap.mmap(-1, SLOTS * SLOT_SIZE)
        self._out = MR(pd, self._staging, 0)
        self._peer: MailboxOffer | None = None
        self._slots = self._slot_size = 0
        self._queue: deque[_Outgoing] = deque()
        self._sent = self._acked = self._peer_consumed = 0
        # By fragment: the transfer that its completion finishes.
        self._flying: deque[Transfer | None] = deque()
        self._expected = self._consumed = self._credited = 0
        self._credit_flying = False
        self._ping_wanted = False
        self._pings: list[Transfer] = []
        self._assembly = bytearray()
        self._assembly_kind: Kind | None = None

    @property
    def offer(self) -> MailboxOffer:
        """What the peer needs to write to us."""
        return MailboxOffer(addr=self._in.iova, rkey=self._in.rkey, slots=SLOTS, slot_size=SLOT_SIZE)

    def connect(self, peer: MailboxOffer) -> None:
        """Learn where the peer's ring is."""
        self._peer = peer
        self._slots = min(SLOTS, peer.slots)
        self._slot_size = min(SLOT_SIZE, peer.slot_size)

    # --- sending --------------------------------------------------------------------------------------------

    def enqueue(self, kind: Kind, data: bytes) -> Transfer:
        """Queue a message; `take_work` gives what may be posted.

        Raises:
            UsageError: longer than 16 MiB.
        """
        if len(data) > MAX_MAIL:
            raise UsageError(f"a message has at most {MAX_MAIL} bytes, not {len(data)}")
        transfer = Transfer(len(data))
        self._queue.append(_Outgoing(kind, data, transfer))
        return transfer

    def ping(self) -> Transfer:
        """Ask the peer's engine for a sign of life: a credit that says nothing new."""
        transfer = Transfer(0)
        self._pings.append(transfer)
        self._ping_wanted = True
        return transfer

    def take_work(self) -> list[SendWR]:
        """Return the work requests that may be posted now; each must be posted."""
        work: list[SendWR] = []
        assert self._peer is not None
        while self._queue and self._sent - min(self._acked, self._peer_consumed) < self._slots:
            work.append(self._next_fragment())
        due = self._consumed - self._credited >= self._slots // 4
        if (due or self._ping_wanted) and not self._credit_flying:
            self._credit_flying = True
            self._ping_wanted = False
            self._credited = self._consumed
            imm = Kind.CREDIT << 30 | self._consumed & _NUMBER
            wr = SendWR(wr_id=1, opcode=WROpcode.RDMA_WRITE_WITH_IMM, imm_data=imm)
            wr.set_wr_rdma(self._peer.rkey, self._peer.addr)
            work.append(wr)
        return work

    def _next_fragment(self) -> SendWR:
        assert self._peer is not None
        head = self._queue[0]
        piece = head.data[head.offset : head.offset + self._slot_size]
        head.offset += len(piece)
        more = head.offset < len(head.data)
        slot = self._sent % self._slots
        self._staging[slot * SLOT_SIZE : slot * SLOT_SIZE + len(piece)] = piece
        imm = head.kind << 30 | (_MORE if more else 0) | self._sent & _NUMBER
        sg = [SGE(self._out.buf + slot * SLOT_SIZE, len(piece), self._out.lkey)]
        wr = SendWR(
            wr_id=0, opcode=WROpcode.RDMA_WRITE_WITH_IMM, num_sge=1 if piece else 0, imm_data=imm, sg=sg
        )
        wr.set_wr_rdma(self._peer.rkey, self._peer.addr + slot * self._peer.slot_size)
        self._sent += 1
        self._flying.append(None if more else head.transfer)
        if not more:
            self._queue.popleft()
        return wr

    def on_sent(self, wr_id: int) -> list[Transfer]:
        """A write of ours was acknowledged; returns the transfers that are done by it."""
        if wr_id == 1:
            self._credit_flying = False
            if self._ping_wanted:
                return []  # asked for after this credit left: the next one answers
            done, self._pings = self._pings, []
            return done
        self._acked += 1
        transfer = self._flying.popleft()
        return [transfer] if transfer is not None else []

    def idle(self) -> bool:
        """Return True when everything was acknowledged."""
        return not self._queue and not self._flying

    def fail(self) -> list[Transfer]:
        """Return every transfer that will never be done."""
        lost = [t for t in self._flying if t is not None] + [o.transfer for o in self._queue] + self._pings
        self._flying.clear()
        self._queue.clear()
        self._pings = []
        return lost

    # --- receiving ------------------------------------------------------------------------------------------

    def on_received(self, imm: int, length: int, deliver: Callable[[Kind, bytes], None]) -> None:
        """A write of the peer arrived. `deliver` gets each complete message or control.

        Raises:
            PeerError: it broke the rules of the mailbox.
        """
        number = imm & _NUMBER
        if imm >> 30 == Kind.CREDIT:
            step = number - self._peer_consumed & _NUMBER
            if step > self._sent - self._peer_consumed:
                raise PeerError("the peer returned more mailbox credits than it had")
            self._peer_consumed += step
            return
        if imm >> 30 not in (Kind.MESSAGE, Kind.CONTROL) or number != self._expected & _NUMBER:
            raise PeerError("the peer broke the order of its mailbox")
        if length > SLOT_SIZE or len(self._assembly) + length > MAX_MAIL:
            raise PeerError("the peer sent too large a mailbox message")
        kind = Kind(imm >> 30)
        if self._assembly_kind not in (None, kind):
            raise PeerError("the peer mixed two mailbox messages")
        at = self._expected % self._slots * SLOT_SIZE
        self._assembly += self._ring[at : at + length]
        self._expected += 1
        if imm & _MORE:
            self._assembly_kind = kind
            self._consumed += 1
            return
        data, self._assembly, self._assembly_kind = bytes(self._assembly), bytearray(), None
        if kind is Kind.CONTROL:
            self._consumed += 1
        deliver(kind, data)

    def on_taken(self) -> None:
        """The application took a message: its last slot is free."""
        self._consumed += 1

    def close(self) -> None:
        """Deregister both rings; their queue pair must be gone."""
        self._in.close()
        self._out.close()
