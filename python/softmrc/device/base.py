"""Lifetimes.

Parents close their children first, every object is a context manager, errno becomes VerbsError.
"""

from __future__ import annotations

import contextlib
import errno
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self

from softmrc.errors import MrcError, UsageError, VerbsError

__all__ = ["Resource", "end_block", "refusals"]


@contextlib.contextmanager
def refusals(call: str) -> Iterator[None]:
    """Turn what the compiled core raises into the errors of this package.

    Args:
        call: the call in words, for the message.
    """
    try:
        yield
    except VerbsError:
        raise
    except OSError as error:
        detail = error.strerror or ""
        what = call if detail in ("", call) else f"{call} ({detail})"
        raise VerbsError(error.errno or 5, what) from None
    except ValueError as error:
        raise UsageError(f"{call}: {error}") from None


def end_block(close: Callable[[], object], error: BaseException | None) -> None:
    """Close at the end of a with-block; the error that ended the block stays the one that is seen.

    Args:
        close: called once.
        error: what ended the block, None when nothing did. An error of `close` becomes a note on it.

    Raises:
        Exception: what `close` raises, when the block ended well.
    """
    if error is None:
        close()
        return
    try:
        close()
    except Exception as second:
        error.add_note(f"closing failed as well: {type(second).__name__}: {second}")


class Resource:
    """Something of the device that must be given back."""

    # Queue pairs go before the completion queues and regions they use.
    _close_order = 1

    _closed = True  # until construction has succeeded
    _parent: Resource | None = None
    _children: weakref.WeakSet[Resource]
    # Children that nobody refers to any more but that were in use when the last reference went. The parent
    # gives them back: whenever something of its is opened or closed, and before it is closed itself.
    _forgotten: deque[Resource]

    def _open(self, parent: Resource | None) -> None:
        """Call last in `__init__`: from now on there is something to give back, and the parent sees to it."""
        self._children = weakref.WeakSet()
        self._forgotten = deque()
        if parent is not None:
            parent._require_open()
            parent._children.add(self)
            parent._close_forgotten()
            self._parent = parent
        self._closed = False

    def _require_open(self) -> None:
        if self._closed:
            raise UsageError(f"the {type(self).__name__} is closed")

    @property
    def closed(self) -> bool:
        """True after `close`."""
        return self._closed

    def close(self) -> None:
        """Give it back, children first. Idempotent.

        Raises:
            VerbsError: EBUSY while something else uses it; it then stays open.
        """
        if self._closed:
            return
        self._close_all()
        if self._parent is not None and not self._parent._closed:
            self._parent._close_forgotten()

    def _close_all(self) -> None:
        for child in sorted({*self._children, *self._forgotten}, key=lambda c: c._close_order):
            self._close_child(child)
        self._close_forgotten()  # also what was forgotten meanwhile
        self._release()
        self._closed = True

    def _close_child(self, child: Resource) -> None:
        child.close()

    def _close_forgotten(self) -> None:
        """Give back what nobody refers to; what is still in use waits for the next time."""
        for _ in range(len(self._forgotten)):
            try:
                child = self._forgotten.popleft()
            except IndexError:  # another thread took it
                return
            with contextlib.suppress(MrcError):
                if not child._closed:
                    child._close_all()
            if not child._closed:
                self._forgotten.append(child)

    def _release(self) -> None:
        raise NotImplementedError

    def __del__(self) -> None:
        """Give back what was forgotten, or leave it to the parent while in use; errors have nobody to go to."""
        with contextlib.suppress(Exception):
            try:
                self.close()
            except VerbsError as error:
                if error.errno == errno.EBUSY and self._parent is not None:
                    self._parent._forgotten.append(self)

    def __enter__(self) -> Self:
        """Enter: nothing to do."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Close; see `end_block`."""
        end_block(self.close, error)
