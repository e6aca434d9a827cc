"""What callers pass, as an address, a number of bytes and an element type.

Takes anything with the buffer protocol (bytearray, array, memoryview, mmap, NumPy), anything with DLPack in CPU
memory (torch tensors), and a `Buffer` of the caller's own. Never copies: what is not one contiguous piece of memory
is refused and says so. Imports neither NumPy nor torch.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

from softmrc.collectives import dlpack
from softmrc.collectives.dtypes import DType, dtype_named
from softmrc.errors import UsageError

__all__ = ["Buffer", "as_buffer"]

_FORMATS = {
    "?": "bool",
    "e": "float16",
    "f": "float32",
    "d": "float64",
    "Zf": "complex64",
    "Zd": "complex128",
}
_FORMATS |= {"F": "complex64", "D": "complex128", "c": "uint8", "s": "uint8"}
_SIGNED = "bhilqn"
_UNSIGNED = "BHILQN"
_NATIVE = "@=<" if ctypes.c_uint16(1).value.to_bytes(2, "little") == bytes(ctypes.c_uint16(1)) else "@=>!"


@dataclass(frozen=True, slots=True)
class Buffer:
    """A contiguous piece of memory that holds elements of one type.

    Args:
        addr: address of the first byte; any alignment.
        nbytes: length in bytes, a multiple of the element size; 0 is allowed.
        dtype: code of the element type (`softmrc.collectives.DType.code`).
        owner: whatever keeps the memory alive; held until the call on it is done.
        readonly: it must not be written.
    """

    addr: int
    nbytes: int
    dtype: int = 0
    owner: object = None
    readonly: bool = False

    def __post_init__(self) -> None:
        if self.addr < 0 or self.nbytes < 0:
            raise UsageError(f"a buffer at {self.addr} of {self.nbytes} bytes: neither may be negative")
        if self.nbytes and not self.addr:
            raise UsageError(f"a buffer of {self.nbytes} bytes at address 0: there is no memory behind it")
        if self.nbytes % dtype_named(self.dtype).size:
            raise UsageError(f"{self.nbytes} bytes are no whole number of {self.type.name} elements")

    @property
    def type(self) -> DType:
        """The element type."""
        return dtype_named(self.dtype)

    @property
    def count(self) -> int:
        """Number of elements."""
        return self.nbytes // self.type.size

    def part(self, offset: int, nbytes: int) -> Buffer:
        """A piece of it, by bytes from its start. The caller keeps within bounds."""
        return Buffer(self.addr + offset, nbytes, self.dtype, self.owner, self.readonly)

    def overlaps(self, other: Buffer) -> bool:
        """Whether the two share a byte."""
        if not self.nbytes or not other.nbytes:
            return False
        return self.addr < other.addr + other.nbytes and other.addr < self.addr + self.nbytes


def as_buffer(what: Any, *, write: bool, name: str = "buffer") -> Buffer:
    """Where the elements of an object lie.

    Args:
        what: a `Buffer`, or an object with the buffer protocol or `__dlpack__` (CPU memory).
        write: the collective writes it.
        name: how errors call it, for instance "output".

    Raises:
        UsageError: no such object, not contiguous, read-only but to be written, not in CPU memory, or of an element
            type that has no code; says which and what to do.
    """
    if isinstance(what, Buffer):
        found = what
    else:
        view = _buffer_view(what)
        if view is not None:
            found = _from_view(view, what, name)
        elif hasattr(what, "__dlpack__"):
            addr, count, dtype, readonly, owner = dlpack.opened(what, name)
            found = Buffer(addr, count * dtype.size, dtype.code, owner, readonly)
        else:
            raise UsageError(
                f"{name}: {type(what).__name__} is no buffer; pass an array, a bytearray, a tensor in CPU memory, or "
                "a softmrc.collectives.Buffer"
            )
    if write and found.readonly:
        raise UsageError(
            f"{name}: {type(what).__name__} is read-only but would be written; pass a writable copy"
        )
    return found


def _buffer_view(what: Any) -> memoryview | None:
    try:
        return memoryview(what)
    except (TypeError, ValueError):
        return None  # No buffer protocol, or one that cannot show this type (bfloat16): DLPack may.
    except BufferError:
        return None


def _from_view(view: memoryview, what: Any, name: str) -> Buffer:
    if not view.c_contiguous:
        raise UsageError(
            f"{name}: not contiguous (shape {view.shape}, strides {view.strides}); pass a contiguous copy"
        )
    dtype = _format_type(view.format, view.itemsize, what, name)
    return Buffer(_address(view), view.nbytes, dtype.code, view, view.readonly)


def _format_type(form: str, itemsize: int, what: Any, name: str) -> DType:
    order, letter = (form[0], form[1:]) if form[:1] in "@=<>!" else ("@", form)
    if order not in _NATIVE and itemsize > 1:
        raise UsageError(f"{name}: its bytes are in another order than this host's; convert it first")
    if letter in _SIGNED and letter:
        return dtype_named(f"int{8 * itemsize}")
    if letter in _UNSIGNED and letter:
        return dtype_named(f"uint{8 * itemsize}")
    named = _FORMATS.get(letter)
    if named is None:
        raise UsageError(
            f"{name}: {type(what).__name__} elements of format {form!r} cannot be reduced or sent"
        )
    return dtype_named(named)


class _PyBuffer(ctypes.Structure):
    _fields_ = (
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.c_void_p),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    )


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = (ctypes.py_object, ctypes.POINTER(_PyBuffer), ctypes.c_int)
_get_buffer.restype = ctypes.c_int
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes = (ctypes.POINTER(_PyBuffer),)
_release_buffer.restype = None


def _address(view: memoryview) -> int:
    """Address of the first byte. The view itself goes on holding the memory."""
    raw = _PyBuffer()
    _get_buffer(view, ctypes.byref(raw), 0)  # PyBUF_SIMPLE; raises BufferError by itself.
    addr = int(raw.buf or 0)
    _release_buffer(ctypes.byref(raw))
    return addr
