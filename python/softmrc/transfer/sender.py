"""The sending side: one loop that keeps a bounded number of chunks in flight and hears what was verified.

Decides what is sent next; leaves reading and hashing to `outgoing`, paths and repair to the connection.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from softmrc.endpoint import Connection, Region, RemoteWindow, Transfer
from softmrc.errors import MrcError, PeerClosedError, PeerError, UsageError
from softmrc.text import visible
from softmrc.transfer.errors import ProtocolError, SourceError, TargetError
from softmrc.transfer.messages import MAX_SLOTS, VERSION, decode, encode, integer, text, unpack_hashes
from softmrc.transfer.outgoing import OutgoingFile
from softmrc.transfer.scan import Source, SourceEntry

__all__ = ["Progress", "Sender", "ask_planes"]

OFFER_BATCH = 2000
BUFFERS = 6
"""Chunks between reading and acknowledgement."""
OPEN_FILES = 16
"""Files asked for ahead, so that small files do not wait for round trips."""
SMALL_BUFFER = 1 << 20
"""Buffers of small files have this size, so that they serve the next one, too."""
AGAIN = "Nothing that arrived is lost: start the receiver and run the same command again to go on."
"""What to do when the receiver is gone."""
MAX_TRIES = 3
"""Times a chunk is sent before its damage is taken for a fault of the machine."""


@dataclass
class Progress:
    """How far a transfer is; written by the sender, read by whoever shows it."""

    bytes_total: int = 0
    files_total: int = 0
    bytes_sent: int = 0
    """Bytes the receiver verified."""
    bytes_kept: int = 0
    """Bytes the receiver had already."""
    files_done: int = 0
    phase: str = "connecting"
    """One of connecting, offering, sending, finishing, done."""
    failed: list[str] = field(default_factory=list)
    """Files that were given up, with reasons."""


class _Buffer:
    def __init__(self, connection: Connection, size: int) -> None:
        self.memory = bytearray(size)
        self.view = memoryview(self.memory)
        self.region: Region = connection.register(self.memory, writable=False)


class _Inbox:
    """Messages of the peer and ends of transfers, in one queue."""

    def __init__(self, connection: Connection) -> None:
        self.queue: queue.Queue[tuple[str, Any]] = queue.Queue()
        self._connection = connection
        threading.Thread(target=self._read, name="send reader", daemon=True).start()

    def _read(self) -> None:
        try:
            while True:
                self.queue.put(("message", self._connection.recv_message_sync()))
        except MrcError as error:
            self.queue.put(("gone", error))


def ask_planes(connection: Connection, timeout: float = 10.0) -> list[str]:
    """Ask a receiver which planes it listens on.

    Raises:
        PeerError: no answer in time.
        ProtocolError: not an answer.
    """
    connection.send_message(encode("planes?"))
    try:
        message = decode(connection.recv_message_sync(timeout))
    except TimeoutError:
        raise PeerError(f"{connection.peer} does not answer; is it `softmrc recv`?") from None
    addresses = message.get("addresses")
    if message["t"] != "planes" or not isinstance(addresses, list) or not 1 <= len(addresses) <= 32:
        raise ProtocolError("the receiver does not say which planes it has")
    return [visible(text({"address": a}, "address", 80)) for a in addresses]


class Sender:
    """Sends what `scan` found over a connection."""

    def __init__(self, connection: Connection, source: Source) -> None:
        """Prepare a transfer; `run` does it."""
        self._connection = connection
        self._source = source
        self._files = [(n, e) for n, e in enumerate(source.entries) if not e.entry.is_dir]
        self.progress = Progress(bytes_total=source.size, files_total=len(self._files))
        self._inbox = _Inbox(connection)
        self._waiting = list(reversed(self._files))
        self._open: dict[int, OutgoingFile] = {}
        self._free: list[_Buffer] = []
        self._buffers: list[_Buffer] = []
        self._handlers: dict[str, Callable[[dict[str, Any]], None]] = {
            "ready": self._on_ready,
            "ok": self._on_ok,
            "bad": self._on_bad,
            "stored": self._on_stored,
        }

    def run(self) -> None:
        """Send everything; afterwards `progress.failed` lists files that could not be sent.

        Raises:
            PeerError: the receiver is gone.
            TargetError: the receiver refused or could not store something.
            ProtocolError: the peer is no receiver of this version.
        """
        try:
            self._offer()
            self.progress.phase = "sending"
            while self._waiting or self._open:
                self._open_ahead()
                if not self._send_one():
                    self._take(block=True)
                while self._take(block=False):
                    pass
            self.progress.phase = "finishing"
            self._say("end")
            self._await("bye")
            self.progress.phase = "done"
        except PeerError as error:
            raise PeerError(f"{error} {AGAIN}") from error
        except (MrcError, OSError) as error:
            with contextlib.suppress(MrcError):
                self._say("fail", why=str(error)).wait(5.0)
            raise
        finally:
            for file in self._open.values():
                file.close()

    def _say(self, kind: str, **members: object) -> Transfer:
        return self._connection.send_message(encode(kind, **members))

    def _offer(self) -> None:
        self.progress.phase = "offering"
        rows = [e.entry.to_json() for e in self._source.entries]
        for at in range(0, len(rows), OFFER_BATCH):
            last = at + OFFER_BATCH >= len(rows)
            self._say("offer", version=VERSION, entries=rows[at : at + OFFER_BATCH], last=last)
        self._await("go")

    def _await(self, kind: str) -> None:
        while True:
            what, item = self._inbox.queue.get()
            if what == "gone":
                raise self._gone(item)
            if what == "buffer":
                self._done(*item)
                continue
            message = decode(item)
            if message["t"] == kind:
                return
            self._dispatch(message)

    @staticmethod
    def _gone(error: MrcError) -> MrcError:
        if isinstance(error, PeerClosedError):
            return PeerError("the receiver went away before everything was stored.")
        return error

    # --- events -------------------------------------------------------------------------------------------

    def _take(self, block: bool) -> bool:
        """Handle one event; False: there is none."""
        try:
            what, item = self._inbox.queue.get(block=block)
        except queue.Empty:
            return False
        if what == "gone":
            raise self._gone(item)
        if what == "buffer":
            self._done(*item)
        else:
            self._dispatch(decode(item))
        return True

    def _dispatch(self, message: dict[str, Any]) -> None:
        kind = message["t"]
        if kind == "fail":
            raise TargetError(f"the receiver refused: {visible(text(message, 'why'))}")
        handler = self._handlers.get(kind)
        if handler is None:
            raise ProtocolError(f"control message '{visible(kind[:20])}' makes no sense now")
        handler(message)

    def _done(self, buffer: _Buffer, transfer: Transfer) -> None:
        error = transfer.exception()
        if error is not None:
            raise error
        self._free.append(buffer)

    def _file_of(self, message: dict[str, Any]) -> OutgoingFile | None:
        """Return the file a message is about; None: it was given up in the meantime."""
        return self._open.get(integer(message, "id", len(self._source.entries) - 1))

    def _on_ready(self, message: dict[str, Any]) -> None:
        file = self._file_of(message)
        if file is None:
            return
        raw = message.get("window")
        try:
            window = None if raw is None else RemoteWindow.from_json(raw)
        except UsageError as error:
            raise ProtocolError(f"the receiver's window makes no sense: {error}") from error
        if window is not None and window.length < file.entry.size:
            raise ProtocolError("the receiver's window is smaller than the file")
        have = unpack_hashes(message.get("have"), file.count)
        file.on_ready(integer(message, "slot", MAX_SLOTS - 1), window, have)

    def _on_ok(self, message: dict[str, Any]) -> None:
        file = self._file_of(message)
        if file is None:
            return
        index = integer(message, "index", file.count - 1)
        if index in file.unverified:
            file.unverified.discard(index)
            self.progress.bytes_sent += file.length_of(index)

    def _on_bad(self, message: dict[str, Any]) -> None:
        file = self._file_of(message)
        if file is None:
            return
        index = integer(message, "index", file.count - 1)
        if file.broken is not None:
            file.unverified.discard(index)
            return
        file.tries[index] = file.tries.get(index, 1) + 1
        if file.tries[index] > MAX_TRIES:
            raise TargetError(
                f"chunk {index} of {visible(file.path)} arrives damaged again and again; "
                "check memory and disk of both hosts"
            )
        file.again.append(index)

    def _on_stored(self, message: dict[str, Any]) -> None:
        file = self._file_of(message)
        if file is None:
            return
        self.progress.files_done += 1
        self.progress.bytes_kept += file.kept
        del self._open[file.number]
        file.close()

    # --- sending ------------------------------------------------------------------------------------------

    def _open_ahead(self) -> None:
        while self._waiting and len(self._open) < OPEN_FILES:
            number, source = self._waiting.pop()
            try:
                self._open[number] = OutgoingFile(number, source)
            except SourceError as error:
                self._give_up(number, source, error)
                continue
            self._say("open", id=number)

    def _give_up(self, number: int, source: SourceEntry, error: SourceError) -> None:
        self.progress.failed.append(str(error))
        self._say("drop", id=number, why=str(error))
        file = self._open.pop(number, None)
        if file is not None:
            file.close()

    def _buffer(self, size: int) -> _Buffer | None:
        if not self._free and len(self._buffers) < BUFFERS:
            self._buffers.append(_Buffer(self._connection, size))
            self._free.append(self._buffers[-1])
        if not self._free:
            return None
        buffer = self._free.pop()
        if len(buffer.memory) >= size:
            return buffer
        self._buffers.remove(buffer)
        buffer.region.release()
        bigger = _Buffer(self._connection, size)
        self._buffers.append(bigger)
        return bigger

    def _send_one(self) -> bool:
        """Read, and where needed write, one chunk of some file; False: there is nothing to do now."""
        if sum(len(f.unverified) for f in self._open.values()) >= 2 * BUFFERS:
            return False
        for file in list(self._open.values()):
            if file.broken is not None:
                # Given up only when nothing of it is under way: the receiver then closes the memory it goes
                # to.
                if file.unverified:
                    continue
                self._give_up(file.number, self._source.entries[file.number], file.broken)
                return True
            if not file.ready or file.finished:
                continue
            if file.all_read and not file.again:
                if file.unverified:
                    continue
                self._finish(file)
                return True
            buffer = self._buffer(file.chunk if file.count > 1 else max(file.entry.size, SMALL_BUFFER))
            if buffer is None:
                return False
            try:
                self._advance(file, buffer)
            except SourceError as error:
                self._free.append(buffer)
                file.broken = error
            return True
        return False

    def _advance(self, file: OutgoingFile, buffer: _Buffer) -> None:
        if file.again:
            index = file.again.popleft()
            digest = file.read_again(index, buffer.view)
        else:
            index, digest, same = file.read_next(buffer.view)
            if same:
                self._free.append(buffer)
                return
            if file.comparing:
                # The receiver's finished file is another one after all: send all of it beside the old one.
                self._free.append(buffer)
                file.ready = False
                self._say("replace", id=file.number)
                return
        assert file.window is not None
        file.unverified.add(index)
        self._say("sum", id=file.number, index=index, sha256=digest.hex())
        transfer = self._connection.write(
            buffer.region,
            file.window,
            offset=index * file.chunk,
            imm=file.slot << 24 | index,
            length=file.length_of(index),
        )
        transfer.add_done_callback(lambda t: self._inbox.queue.put(("buffer", (buffer, t))))

    def _finish(self, file: OutgoingFile) -> None:
        """Ask the receiver to verify the whole, unless the source changed: then it is given up."""
        try:
            file.check_unchanged()
        except SourceError as error:
            self._give_up(file.number, self._source.entries[file.number], error)
            return
        file.finished = True
        self._say("finish", id=file.number, sha256=file.digest)
