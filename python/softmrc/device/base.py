"""Lifetimes.

Parents close their children first, every object is a context manager, errno becomes VerbsError.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from softmrc.errors import UsageError, VerbsError

__all__ = ["Resource", "refusals"]


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


class Resource:
    """Something of the device that must be given back."""

    # Queue pairs go before the completion queues and regions they use.
    _close_order = 1

    _closed = True  # until construction has succeeded
    _children: weakref.WeakSet[Resource]

    def _open(self, parent: Resource | None) -> None:
        """Call last in `__init__`: from now on there is something to give back, and the parent sees to it."""
        self._children = weakref.WeakSet()
        if parent is not None:
            parent._require_open()
            parent._children.add(self)
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
        for child in sorted(self._children, key=lambda c: c._close_order):
            child.close()
        self._release()
        self._closed = True

    def _release(self) -> None:
        raise NotImplementedError

    def __del__(self) -> None:
        """Give back what was forgotten; errors have nobody to go to."""
        with contextlib.suppress(Exception):
            self.close()

    def __enter__(self) -> Self:
        """Enter: nothing to do."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Close."""
        self.close()
