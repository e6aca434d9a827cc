"""The `dist.Work` of a collective or a message: waiting, results, errors, futures.

Decides when results are copied into the caller's tensors and which exception a failure becomes. Leaves the waiting
itself, timeouts and who is to blame to `softmrc.collectives`.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch.futures import Future

from softmrc.errors import PeerError
from softmrc.torch_backend import devices
from softmrc.torch_backend.tensors import Loan

__all__ = ["MrcWork", "Part", "PeerFailureError", "torch_error"]

_NONE: list[torch.device] = []


class PeerFailureError(PeerError, dist.DistBackendError):
    """Another rank failed, or did not answer in time; also a `RuntimeError`, as torch's backends raise."""


class Part(Protocol):
    """What a work waits for: a job of `softmrc.collectives`, or a message."""

    def wait(self, timeout: float | None = None) -> Any:
        """Wait up to `timeout` seconds, by default as long as the call allows; raise if it failed."""

    def done(self) -> bool:
        """Tell whether it has ended, well or not."""

    def exception(self) -> BaseException | None:
        """Return why it failed once it is done."""

    def add_done_callback(self, function: Any) -> None:
        """Call `function(part)` when it is done, from another thread or at once."""


def torch_error(error: BaseException) -> BaseException:
    """Return the error as one that programs written for torch's own backends catch too."""
    if isinstance(error, PeerError) and not isinstance(error, dist.DistBackendError):
        raised = PeerFailureError(str(error))
        raised.__cause__ = error.__cause__
        return raised
    return error


class MrcWork(dist.Work):
    """One call of a collective, or of send or receive, of one rank.

    Any thread may wait. The result is in the tensors when `wait` returns, and when the future is done.
    """

    def __init__(self, parts: Sequence[Part], loans: Sequence[Loan], tensors: Sequence[torch.Tensor]) -> None:
        """Follow the parts of a call.

        Args:
            parts: everything that has to end.
            loans: memory to settle when all parts have ended well.
            tensors: the call's results, for `result` and the future.
        """
        super().__init__()
        self._parts = parts
        self._loans = loans
        self._tensors = tensors
        self._lock = threading.Lock()
        self._cuda = devices.of(tensors) if any(tensor.is_cuda for tensor in tensors) else _NONE
        self._events: Sequence[torch.cuda.Event] = ()
        self._future: Future[Any] | None = None
        self._open_parts = 0
        self._held_by: dict[int, MrcWork] | None = None

    @classmethod
    def of_works(
        cls, works: Sequence[MrcWork], tensors: Sequence[torch.Tensor], loans: Sequence[Loan] = ()
    ) -> MrcWork:
        """Return one work for several that nobody has waited for; `loans` are settled after theirs."""
        parts = [part for work in works for part in work._parts]
        return cls(parts, [loan for work in works for loan in work._loans] + list(loans), tensors)

    def hold(self, holder: dict[int, MrcWork], most: int) -> None:
        """Keep this object alive until somebody has waited for it, or until `most` younger ones are held."""
        self._held_by = holder
        holder[id(self)] = self
        while len(holder) > most:
            del holder[next(iter(holder))]

    @property
    def tensors(self) -> Sequence[torch.Tensor]:
        """The tensors that get the result."""
        return self._tensors

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait for the result.

        Args:
            timeout: how long; 0 and None mean as long as the call or the group allows.

        Raises:
            PeerFailureError: a rank failed, or did not take part in time; the text names it.
        """
        seconds = timeout.total_seconds() if timeout is not None else 0.0
        try:
            for part in self._parts:
                part.wait(seconds if seconds > 0 else None)
        except PeerError as error:
            raise torch_error(error) from None
        self._settle()
        if self._events:
            devices.join(self._cuda, self._events)
        if self._held_by is not None:
            self._held_by.pop(id(self), None)
        return True

    def is_completed(self) -> bool:
        """Tell whether it has ended, well or not."""
        return all(part.done() for part in self._parts)

    def is_success(self) -> bool:
        """Tell whether it has ended well."""
        return self.is_completed() and self._failure() is None

    def exception(self) -> BaseException | None:
        """Return why it failed; None while it runs and after success."""
        return self._failure() if self.is_completed() else None

    def synchronize(self) -> None:
        """Make the result usable on the current stream; waits for the network, as `wait` does."""
        self.wait()

    def result(self) -> list[torch.Tensor]:
        """Wait, and return the tensors with the results."""
        self.wait()
        return list(self._tensors)

    def source_rank(self) -> int:
        """Return the rank, in the group, that a received message came from; known once it is here."""
        source = getattr(self._parts[0], "source", None) if self._parts else None
        return -1 if source is None else int(source)

    _source_rank = source_rank

    def get_future(self) -> Future[Any]:
        """Return a future that ends with the list of result tensors, or with the error."""
        with self._lock:
            if self._future is not None:
                return self._future
            self._future = Future(devices=list(self._cuda)) if self._cuda else Future()
            self._open_parts = len(self._parts)
            future = self._future
        if not self._parts:
            self._resolve()
        for part in self._parts:
            part.add_done_callback(self._part_done)
        return future

    getFuture = get_future

    def _part_done(self, _part: object) -> None:
        with self._lock:
            self._open_parts -= 1
            if self._open_parts:
                return
        self._resolve()

    def _resolve(self) -> None:
        assert self._future is not None
        error = self._failure()
        if error is None:
            try:
                self._settle()
            except Exception as problem:
                error = problem
        if self._held_by is not None:
            self._held_by.pop(id(self), None)
        if error is None:
            self._future.set_result(list(self._tensors))
        else:
            self._future.set_exception(error)  # type: ignore[arg-type]

    def _settle(self) -> None:
        if not self._loans and not self._cuda:
            return
        with self._lock:
            for loan in self._loans:
                loan.settle()
            if self._cuda and not self._events:
                self._events = devices.mark(self._cuda)
            self._loans = ()

    def _failure(self) -> BaseException | None:
        for part in self._parts:
            error = part.exception()
            if error is not None:
                return torch_error(error)
        return None
