"""One peer of a receiver: what it may say when, and what is answered.

Three threads: the session itself hashes and answers; two readers put messages and immediates into its queue.
The queue is bounded, so a peer that talks too much is held back by the transport.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time
from typing import TYPE_CHECKING, Any

from softmrc.endpoint import Connection
from softmrc.errors import MrcError, PeerClosedError, PeerError
from softmrc.text import visible
from softmrc.transfer.errors import ProtocolError, SourceError, TargetError
from softmrc.transfer.incoming import IncomingFile, hash_existing, place_empty, set_attributes
from softmrc.transfer.journal import chunk_count, chunk_size_for
from softmrc.transfer.messages import (
    MAX_ENTRIES,
    MAX_SLOTS,
    VERSION,
    Entry,
    decode,
    digest_of,
    encode,
    integer,
    pack_hashes,
    text,
)
from softmrc.transfer.names import refuse_clashes
from softmrc.transfer.tree import Tree, reason

if TYPE_CHECKING:
    from softmrc.transfer.receiver import Outcome, Receiver

__all__ = ["Session"]

_Item = tuple[str, Any]
MAX_WAITING = 256
"""Chunks of a file whose hash or bytes are still missing; a sender keeps far fewer in flight."""


class _Slot:
    """An open file: its chunks that are half there, because bytes and hash travel apart."""

    def __init__(self, number: int, file: IncomingFile) -> None:
        self.number = number
        self.file = file
        self.placed: set[int] = set()
        self.expected: dict[int, bytes] = {}
        self.received = 0
        """Bytes that came in this time."""


class Session(threading.Thread):
    """Serves one connection until the peer ends or fails."""

    def __init__(self, receiver: Receiver, connection: Connection, outcome: Outcome) -> None:
        super().__init__(name=f"recv {connection.peer}", daemon=True)
        self.outcome = outcome
        self.counts = False
        """Whether it ended a transfer: complete or failed for good, not merely interrupted."""
        self._receiver = receiver
        self._connection = connection
        self._queue: queue.Queue[_Item] = queue.Queue(maxsize=1024)
        self._ended = threading.Event()
        self._entries: list[Entry] = []
        self._agreed = False
        self._slots: dict[int, _Slot] = {}
        self._by_id: dict[int, _Slot] = {}
        self._existing: dict[int, dict[int, bytes]] = {}
        self._stored: set[int] = set()
        self._replaced = False

    # --- the thread ---------------------------------------------------------------------------------------

    def run(self) -> None:
        """Serve the peer."""
        for reader in (self._read_messages, self._read_notifications):
            threading.Thread(target=reader, name=f"{self.name} reader", daemon=True).start()
        started = time.monotonic()
        try:
            while not self.outcome.complete:
                kind, item = self._queue.get()
                if kind == "gone":
                    raise item
                if kind == "message":
                    if not self._handle(decode(item)):
                        break
                else:
                    self._placed(item >> 24, item & 0xFFFFFF)
        except PeerClosedError:
            self.outcome.interrupted = self._agreed
        except PeerError as error:
            self.outcome.interrupted = True
            newer = "taken over by a newer transfer of the same files"
            self.outcome.error = newer if self._replaced else str(error)
        except (MrcError, OSError) as error:
            self.outcome.error = reason(error) if isinstance(error, OSError) else str(error)
            self._tell_failure(self.outcome.error)
        finally:
            self.outcome.seconds = time.monotonic() - started
            self._end()

    def _end(self) -> None:
        self.counts = self.outcome.complete or (
            self.outcome.error is not None and not self.outcome.interrupted
        )
        self._ended.set()
        for slot in list(self._slots.values()):
            with contextlib.suppress(MrcError, OSError):
                slot.file.close()
        with contextlib.suppress(MrcError, OSError):
            self._connection.close(timeout=0.0 if self.outcome.interrupted else 3.0)
        if self._agreed or self.outcome.error:
            self._receiver.say("end", self.outcome)

    def _tell_failure(self, why: str) -> None:
        with contextlib.suppress(MrcError):
            self._connection.send_message(encode("fail", why=why)).wait(5.0)

    def replace_by_newer(self) -> None:
        """Make room for a newer session of the same sender."""
        self._replaced = True
        self.stop()

    def stop(self) -> None:
        """End the session from another thread."""
        self._ended.set()
        with contextlib.suppress(MrcError):
            self._connection.abort()
        with contextlib.suppress(queue.Full):
            self._queue.put_nowait(("gone", PeerError("stopped")))

    def _put(self, item: _Item) -> bool:
        while not self._ended.is_set():
            with contextlib.suppress(queue.Full):
                self._queue.put(item, timeout=0.5)
                return True
        return False

    def _read_messages(self) -> None:
        try:
            while self._put(("message", self._connection.recv_message_sync())):
                pass
        except MrcError as error:
            self._put(("gone", error))

    def _read_notifications(self) -> None:
        try:
            while self._put(("placed", self._connection.recv_notification().imm)):
                pass
        except MrcError:
            pass  # the reader of messages reports it

    # --- messages -----------------------------------------------------------------------------------------

    def _handle(self, message: dict[str, Any]) -> bool:
        """Act on a message; False: the peer is done."""
        kind = message["t"]
        if kind == "planes?":
            planes = [p.address for p in self._receiver.endpoint.planes]
            self._say("planes", addresses=planes, version=VERSION)
        elif kind == "offer" and not self._agreed:
            self._on_offer(message)
        elif kind == "fail":
            raise SourceError(f"the sender gave up: {visible(text(message, 'why'))}")
        elif kind in ("open", "replace", "sum", "finish", "drop", "end") and self._agreed:
            return self._handle_agreed(kind, message)
        else:
            raise ProtocolError(f"control message '{visible(kind[:20])}' makes no sense now")
        return True

    def _handle_agreed(self, kind: str, message: dict[str, Any]) -> bool:
        if kind == "end":
            return self._on_end()
        number = integer(message, "id", len(self._entries) - 1)
        if kind == "open":
            self._on_open(number)
        elif kind == "replace":
            if self._existing.pop(number, None) is None:
                raise ProtocolError("there is nothing to replace")
            self._open_staging(number)
        elif kind == "sum":
            slot = self._slot_of(number)
            index = integer(message, "index", slot.file.count - 1)
            slot.expected[index] = digest_of(message)
            self._try_accept(number, slot, index)
        elif kind == "finish":
            self._on_finish(number, digest_of(message))
        else:
            self._on_drop(number, text(message, "why"))
        return True

    def _say(self, kind: str, **members: object) -> None:
        self._connection.send_message(encode(kind, **members))

    def _slot_of(self, number: int) -> _Slot:
        slot = self._by_id.get(number)
        if slot is None:
            raise ProtocolError(f"file {number} is not open")
        return slot

    def _on_offer(self, message: dict[str, Any]) -> None:
        batch = message.get("entries")
        if not isinstance(batch, list) or len(self._entries) + len(batch) > MAX_ENTRIES:
            raise ProtocolError(f"an offer lists at most {MAX_ENTRIES} entries")
        version = integer(message, "version", 1 << 31)
        if version != VERSION:
            raise ProtocolError(
                f"the sender speaks version {version} of the transfer, this end {VERSION}; update both"
            )
        self._entries += [Entry.from_json(e) for e in batch]
        if message.get("last") is not True:
            return
        tree = self._receiver.tree
        refuse_clashes(((e.parts, e.is_dir) for e in self._entries), tree.ignores_case)
        for entry in self._entries:
            tree.check_target(entry.parts, entry.is_dir)
        self.outcome.bytes_total = sum(e.size for e in self._entries)
        self._check_space(tree)
        for entry in self._entries:
            if entry.is_dir:
                with tree.directory(entry.parts, create=True):
                    pass
        self._agreed = True
        self._receiver.say("start", self.outcome)
        self._say("go")

    def _check_space(self, tree: Tree) -> None:
        """Refuse what cannot fit; what lies there from an earlier try is not needed again."""
        needed = 0
        for entry in self._entries:
            info = tree.stat(entry.parts) if entry.size else None
            if info is None or (info.st_size, info.st_mtime_ns) != (entry.size, entry.mtime_ns):
                needed += max(0, entry.size - tree.staged_bytes(entry.parts))
        free = tree.free_bytes()
        if needed > free:
            raise TargetError(
                f"{needed} bytes are needed in {visible(tree.path)}, {free} are free; "
                "make room and run the same command again"
            )

    def _on_open(self, number: int) -> None:
        entry = self._entries[number]
        if entry.is_dir or number in self._by_id or number in self._existing or number in self._stored:
            raise ProtocolError(f"'{visible(entry.name)}' cannot be opened now")
        if len(self._slots) >= MAX_SLOTS:
            raise ProtocolError(f"more than {MAX_SLOTS} files are open")
        if entry.size == 0:
            place_empty(self._receiver.tree, entry)
            self._mark_stored(number)
            return
        existing = hash_existing(self._receiver.tree, entry)
        if existing is not None:
            self._existing[number] = existing
            self._say("ready", id=number, slot=0, window=None, have=pack_hashes(existing))
            return
        self._open_staging(number)

    def _open_staging(self, number: int) -> None:
        entry = self._entries[number]
        tree = self._receiver.tree
        key = tree.staging_name(entry.parts)
        file = self._receiver.open_file(self, lambda: IncomingFile(tree, entry), key)
        slot = _Slot(next(n for n in range(MAX_SLOTS) if n not in self._slots), file)
        self._slots[slot.number] = self._by_id[number] = slot
        window = file.expose(self._connection).descriptor.to_json()
        self._say("ready", id=number, slot=slot.number, window=window, have=pack_hashes(file.hashes))

    def _placed(self, slot_number: int, index: int) -> None:
        """Handle an immediate: a chunk's bytes are in place."""
        slot = self._slots.get(slot_number)
        if slot is None or index >= slot.file.count or len(slot.placed) > MAX_WAITING:
            raise ProtocolError(f"an immediate names chunk {index} of slot {slot_number}, which is not open")
        slot.placed.add(index)
        number = next(n for n, s in self._by_id.items() if s is slot)
        self._try_accept(number, slot, index)

    def _try_accept(self, number: int, slot: _Slot, index: int) -> None:
        if len(slot.expected) > MAX_WAITING:
            raise ProtocolError("too many chunk hashes without their bytes")
        if index not in slot.placed or index not in slot.expected:
            return
        slot.placed.discard(index)
        if slot.file.accept(index, slot.expected.pop(index)):
            size = min(slot.file.chunk, slot.file.entry.size - index * slot.file.chunk)
            slot.received += size
            self.outcome.bytes_received += size
            self._say("ok", id=number, index=index)
            self._receiver.say("progress", self.outcome)
        else:
            self._say("bad", id=number, index=index)

    def _on_finish(self, number: int, digest: bytes) -> None:
        entry = self._entries[number]
        if number in self._existing:
            chunk = chunk_size_for(entry.size)
            if len(self._existing.pop(number)) != chunk_count(entry.size, chunk):
                raise ProtocolError(f"'{visible(entry.name)}' is not complete")
            self._touch_existing(entry)
            self.outcome.bytes_kept += entry.size
        else:
            slot = self._slot_of(number)
            slot.file.finish(digest)
            self.outcome.bytes_kept += max(0, entry.size - slot.received)
            self._close_slot(number)
        self._mark_stored(number)

    def _touch_existing(self, entry: Entry) -> None:
        """Give a file that was there already the mode of the source."""
        fd = self._receiver.tree.open_existing(entry.parts)
        try:
            set_attributes(fd, entry)
        except OSError as error:
            raise TargetError(f"cannot set the mode of '{visible(entry.name)}': {reason(error)}") from error
        finally:
            os.close(fd)

    def _mark_stored(self, number: int) -> None:
        self._stored.add(number)
        self.outcome.files += 1
        self._say("stored", id=number)

    def _close_slot(self, number: int) -> None:
        slot = self._by_id.pop(number)
        del self._slots[slot.number]
        slot.file.close()

    def _on_drop(self, number: int, why: str) -> None:
        """Give a file up because the sender cannot send it."""
        self._existing.pop(number, None)
        if number in self._by_id:
            self._by_id[number].file.discard()
            self._close_slot(number)
        self.outcome.incomplete.append(f"{visible(self._entries[number].name)}: {visible(why)}")

    def _on_end(self) -> bool:
        if self._slots or self._existing:
            raise ProtocolError("the sender ends while files are open")
        tree = self._receiver.tree
        for entry in sorted((e for e in self._entries if e.is_dir), key=lambda e: -len(e.parts)):
            with tree.directory(entry.parts, create=True) as fd:
                try:
                    set_attributes(fd, entry)
                except OSError as error:
                    raise TargetError(
                        f"cannot set the mode of '{visible(entry.name)}': {reason(error)}"
                    ) from error
        self.outcome.complete = True
        self._connection.send_message(encode("bye", files=self.outcome.files)).wait(10.0)
        return False
