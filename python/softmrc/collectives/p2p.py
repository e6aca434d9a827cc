"""Send and receive with tags between the ranks of a group (MPI's rules: in order for each source and tag).

Small letters go along with their envelope, into memory of the receiver's mesh until they are asked for. Large ones
announce themselves; the receiver opens the memory they go to, and they are written there at once, without a copy.
Decides how much may lie unasked for at a receiver: 1 MiB and 1024 letters a sender, then further ones announce
themselves or wait. Sizes must be equal: else both ends raise, the receiver at once, the sender in this letter or,
when that was done already, in its next one to the same rank.
"""

from __future__ import annotations

import itertools
import struct
import threading
from collections import deque
from collections.abc import Callable

from softmrc.collectives.envelopes import (
    ANNOUNCE,
    CREDIT_BYTES,
    CREDIT_LETTERS,
    EAGER,
    EAGER_MAX,
    GRANT,
    GRANTED,
    HEAD,
    OPEN,
    OPENED,
    REFUSE,
    REFUSED,
    Box,
    Correspondent,
    Waiting,
)  # fmt: skip
from softmrc.collectives.groups import Groups, GroupState
from softmrc.collectives.letters import Letter, Memory, memory_of, registered
from softmrc.collectives.peers import Peers
from softmrc.endpoint import Endpoint, Notification, RemoteWindow, Transfer
from softmrc.errors import MrcError, PeerError, UsageError

__all__ = ["P2P"]

_CHANNEL = b"P"


class P2P:
    """All letters of a rank."""

    def __init__(self, ep: Endpoint, groups: Groups, peers: Peers, rank: int) -> None:
        """Begin to receive."""
        self._ep, self._groups, self._peers, self._rank = ep, groups, peers, rank
        self._lock = threading.RLock()
        self._boxes: dict[tuple[str, int], Box] = {}
        self._with: dict[int, Correspondent] = {}
        self._numbers = itertools.count(1)
        self._over: dict[int, str] = {}
        peers.on(_CHANNEL, self._on_message)
        peers.on_notification(self._on_note)

    # --- any thread -----------------------------------------------------------------------------------------

    def send(self, gid: int, buffer: object, dst: int, tag: int = 0) -> Letter:
        """Send; returns at once. The memory must not change until the letter is done.

        Args:
            gid: the group.
            buffer: see `memory_of`.
            dst: rank in the group.
            tag: any 63-bit number.

        Raises:
            UsageError: no such rank, or no memory to send from.
            PeerError: the group is broken, or that rank has ended.
        """
        state = self._state(gid, dst)
        memory = memory_of(buffer, writable=False)
        letter = Letter(
            memory,
            state.key,
            dst,
            tag,
            f"send of {memory.nbytes} bytes to rank {state.ranks[dst]} (tag {tag})",
        )
        rank = state.ranks[dst]
        if rank == self._rank:
            self._arrive(state.key, tag, Waiting(rank, 0, memory.nbytes, bytes(memory.view)))
            letter.finish()
            return letter
        with self._lock:
            peer = self._peer(rank)
            text, peer.complaint = peer.complaint or self._over.get(rank), None
            if text is not None:
                raise PeerError(text)
            peer.held.append((state, letter))
            failed = self._post(rank, peer)
        _finish(failed)
        return letter

    def recv(self, gid: int, buffer: object, src: int | None, tag: int = 0) -> Letter:
        """Receive exactly as many bytes as the buffer has; returns at once.

        Args:
            gid: the group.
            buffer: see `memory_of`.
            src: rank in the group; None: any, the letter's `source` tells which.
            tag: as the sender gives it.

        Raises:
            UsageError: no such rank, or no memory to receive into.
            PeerError: the group is broken.
        """
        state = self._state(gid, src)
        memory = memory_of(buffer, writable=True)
        whom = "any rank" if src is None else f"rank {state.ranks[src]}"
        letter = Letter(
            memory, state.key, src, tag, f"receive of {memory.nbytes} bytes from {whom} (tag {tag})"
        )
        done: list[Callable[[], object]] = []
        with self._lock:
            box = self._box(state.key, tag)
            wanted = None if src is None else state.ranks[src]
            found = next((w for w in box.unasked if wanted in (None, w.rank)), None)
            if found is None:
                if wanted is not None and wanted in self._over:
                    raise PeerError(self._over[wanted])
                box.asked.append(letter)
                return letter
            box.unasked.remove(found)
            self._match(state, letter, found, done)
        for action in done:
            action()
        return letter

    def fail_group(self, state: GroupState, text: str) -> None:
        """End every letter of a group. Memory that a peer may be writing into stays registered until it is through."""
        lost: list[Letter] = []
        with self._lock:
            for (key, _), box in self._boxes.items():
                if key == state.key:
                    lost += box.asked
                    box.asked.clear()
                    box.unasked.clear()
            for peer in self._with.values():
                lost += [x for s, x in peer.held if s is state] + [
                    x for x in peer.doomed if x.key == state.key
                ]
                peer.doomed = {x for x in peer.doomed if x.key != state.key}
                peer.held = deque((s, x) for s, x in peer.held if s is not state)
                for letters in (peer.announced, peer.expected):
                    mine = {n: x for n, x in letters.items() if x.key == state.key}
                    lost += mine.values()
                    for number, letter in mine.items():
                        if letters is peer.announced:
                            del letters[number]
                        else:
                            letter.keep_memory()
        _finish([(letter, PeerError(text)) for letter in lost])

    def fail_rank(self, rank: int, text: str) -> None:
        """End every letter to and from a rank that has ended; what it sent before can still be received.

        Those that are on the wire end with their transfer, since they may have arrived.
        """
        lost: list[Letter] = []
        with self._lock:
            self._over[rank] = text
            peer = self._with.get(rank)
            if peer is not None:
                lost += (
                    [x for _, x in peer.held] + list(peer.announced.values()) + list(peer.expected.values())
                )
                lost += peer.doomed
                peer.doomed.clear()
                peer.held.clear()
                peer.announced.clear()
                peer.expected.clear()
            for (key, _), box in self._boxes.items():
                state = self._groups.named(key)
                for letter in list(box.asked):
                    if state is not None and letter.source is not None and state.ranks[letter.source] == rank:
                        box.asked.remove(letter)
                        lost.append(letter)
                box.unasked = deque(w for w in box.unasked if w.rank != rank or w.data is not None)
        _finish([(letter, PeerError(f"{letter.what}: {text}")) for letter in lost])
        for letter in lost:
            letter.let_go()

    def unsent(self) -> int:
        """Return how many letters of this end are not with their receivers yet."""
        with self._lock:
            return sum(len(p.held) + len(p.announced) + len(p.flying) for p in self._with.values())

    def _state(self, gid: int, rank: int | None) -> GroupState:
        state = self._groups.of(gid)
        if rank is not None and not 0 <= rank < len(state.ranks):
            raise UsageError(f"group {state.key!r} has ranks 0 to {len(state.ranks) - 1}, not {rank}")
        if (error := state.error()) is not None:
            raise error
        return state

    def _peer(self, rank: int) -> Correspondent:
        return self._with.setdefault(rank, Correspondent())

    def _box(self, key: str, tag: int) -> Box:
        return self._boxes.setdefault((key, tag), Box())

    # --- sending (lock held) --------------------------------------------------------------------------------

    def _post(self, rank: int, peer: Correspondent) -> list[tuple[Letter, Exception | None]]:
        """Send what the receiver has room for; returns letters that failed."""
        failed: list[tuple[Letter, Exception | None]] = []
        while peer.held and peer.letters:
            state, letter = peer.held.popleft()
            if letter.done():
                continue
            memory = letter.memory
            assert memory is not None
            number, key = next(self._numbers), state.key.encode()
            eager = memory.nbytes <= min(EAGER_MAX - len(key), peer.bytes)
            head = HEAD.pack(EAGER if eager else ANNOUNCE, len(key), letter.tag, number, memory.nbytes) + key
            peer.letters -= 1
            try:
                if eager:
                    peer.bytes -= memory.nbytes
                    peer.flying.add(letter)
                    sent = self._peers.send(rank, _CHANNEL, head + memory.view)
                    sent.add_done_callback(lambda t, x=letter: self._landed(rank, x, t))  # type: ignore[misc]
                else:
                    peer.announced[number] = letter
                    self._peers.send(rank, _CHANNEL, head)
            except MrcError as error:
                peer.flying.discard(letter)
                peer.announced.pop(number, None)
                if (why := self._undelivered(rank, letter, error)) is not None:
                    failed.append((letter, why))
        return failed

    def _landed(self, rank: int, letter: Letter, transfer: Transfer) -> None:
        error = transfer.exception()
        with self._lock:
            self._peer(rank).flying.discard(letter)
            why = None if error is None else self._undelivered(rank, letter, error)
        if error is None or why is not None:
            letter.finish(why)

    def _undelivered(self, rank: int, letter: Letter, error: BaseException) -> Exception | None:
        """Return why a letter did not arrive; None: the verdict of its group is on its way, and will end it."""
        state = self._groups.named(letter.key)
        if state is not None and state.broken is not None:
            return PeerError(state.broken)
        if state is None or rank in self._over:
            return PeerError(f"{letter.what}: {error}")
        self._peer(rank).doomed.add(letter)
        return None

    def _on_opened(self, rank: int, data: bytes) -> None:
        _, number, addr, rkey, length, imm = OPEN.unpack(data)
        with self._lock:
            peer = self._peer(rank)
            letter = peer.announced.pop(number, None)
            if letter is None or letter.memory is None:
                return
            peer.flying.add(letter)
            why: Exception | None = None
            try:
                letter.region = registered(self._ep.register, letter.memory, writable=False)
                window = RemoteWindow(addr=addr, rkey=rkey, length=length)
                sent = self._peers.conn(rank).write(letter.region, window, imm=imm)
                sent.add_done_callback(lambda t: self._landed(rank, letter, t))
            except MrcError as refused:
                peer.flying.discard(letter)
                why = self._undelivered(rank, letter, refused)
        if why is not None:
            letter.finish(why)

    # --- receiving ------------------------------------------------------------------------------------------

    def _match(
        self, state: GroupState, letter: Letter, found: Waiting, done: list[Callable[[], object]]
    ) -> None:
        """Lock held; what may call users is put into `done`."""
        memory = letter.memory
        assert memory is not None
        letter.source = state.ranks.index(found.rank)
        if found.rank != self._rank:
            self._grant(found.rank, found.nbytes if found.data is not None else 0)
        if memory.nbytes != found.nbytes:
            text = (
                f"{letter.what}: rank {found.rank} sent {found.nbytes} bytes where rank {self._rank} receives "
                f"{memory.nbytes}; both must be equal"
            )
            if found.rank != self._rank:
                self._peers.tell([found.rank], _CHANNEL, REFUSE.pack(REFUSED, found.number, memory.nbytes))
            done.append(lambda: letter.finish(PeerError(text)))
        elif found.data is not None:
            try:
                memory.view[:] = found.data
            except (TypeError, ValueError) as error:  # whoever owns the memory has changed it meanwhile
                refused = UsageError(f"{letter.what}: {error}")
                done.append(lambda: letter.finish(refused))
            else:
                done.append(letter.finish)
        else:
            self._open(letter, memory, found, done)

    def _open(self, letter: Letter, memory: Memory, found: Waiting, done: list[Callable[[], object]]) -> None:
        try:
            letter.region = registered(self._ep.register, memory, writable=True)
            window = letter.region.descriptor
            peer = self._peer(found.rank)
            imm = next(
                i for i in itertools.count(found.number & 0xFFFFFFFF) if i & 0xFFFFFFFF not in peer.expected
            )
            peer.expected[imm & 0xFFFFFFFF] = letter
            answer = OPEN.pack(
                OPENED, found.number, window.addr, window.rkey, window.length, imm & 0xFFFFFFFF
            )
            self._peers.send(found.rank, _CHANNEL, answer)
        except MrcError as error:
            text = f"{letter.what}: {error}"
            done.append(lambda: letter.finish(PeerError(text)))

    def _grant(self, rank: int, nbytes: int) -> None:
        peer = self._peer(rank)
        peer.owed_letters += 1
        peer.owed_bytes += nbytes
        if peer.owed_letters >= CREDIT_LETTERS // 4 or peer.owed_bytes >= CREDIT_BYTES // 4:
            grant = GRANT.pack(GRANTED, peer.owed_letters, peer.owed_bytes)
            peer.owed_letters = peer.owed_bytes = 0
            self._peers.tell([rank], _CHANNEL, grant)

    def _arrive(self, key: str, tag: int, found: Waiting) -> None:
        done: list[Callable[[], object]] = []
        with self._lock:
            box = self._box(key, tag)
            state = self._groups.named(key)
            letter = None
            if state is not None and found.rank in state.ranks:
                its = state.ranks.index(found.rank)
                letter = next((x for x in box.asked if x.source in (None, its)), None)
            if letter is None or state is None:
                box.unasked.append(found)
            else:
                box.asked.remove(letter)
                self._match(state, letter, found, done)
        for action in done:
            action()

    # --- endpoint's thread ----------------------------------------------------------------------------------

    def _on_message(self, rank: int, data: bytes) -> None:
        try:
            kind = data[0]
            if kind in (EAGER, ANNOUNCE):
                _, key_size, tag, number, nbytes = HEAD.unpack_from(data)
                at = HEAD.size + key_size
                body = data[at:] if kind == EAGER else None
                if body is not None and len(body) != nbytes:
                    return
                self._arrive(data[HEAD.size : at].decode(), tag, Waiting(rank, number, nbytes, body))
            elif kind == OPENED:
                self._on_opened(rank, data)
            elif kind == GRANTED:
                self._on_granted(rank, *GRANT.unpack(data)[1:])
            elif kind == REFUSED:
                self._on_refused(rank, *REFUSE.unpack(data)[1:])
        except (struct.error, IndexError, UnicodeDecodeError):
            return  # nothing a rank of ours sends

    def _on_granted(self, rank: int, letters: int, nbytes: int) -> None:
        with self._lock:
            peer = self._peer(rank)
            peer.letters += letters
            peer.bytes += nbytes
            failed = self._post(rank, peer)
        _finish(failed)

    def _on_refused(self, rank: int, number: int, expected: int) -> None:
        with self._lock:
            peer = self._peer(rank)
            letter = peer.announced.pop(number, None)
            text = f"rank {rank} receives {expected} bytes where rank {self._rank} sent"
            if letter is None:
                peer.complaint = f"{text} another number (an earlier send); both must be equal"
        if letter is not None:
            letter.finish(PeerError(f"{letter.what}: {text} {letter.nbytes}; both must be equal"))

    def _on_note(self, rank: int, note: Notification) -> None:
        with self._lock:
            letter = self._peer(rank).expected.pop(note.imm, None)
        if letter is not None:
            letter.finish()
            letter.let_go()


def _finish(letters: list[tuple[Letter, Exception | None]]) -> None:
    for letter, error in letters:
        letter.finish(error)
