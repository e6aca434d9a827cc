"""Reading a DLPack capsule without a library: where the elements lie, of which type, and who holds them.

Decides what of the producer's answer is usable (CPU memory, one contiguous piece); leaves the memory in place.
"""

from __future__ import annotations

import ctypes
from typing import Any

from softmrc.collectives.dtypes import DType, dtype_named
from softmrc.errors import UsageError

__all__ = ["Holder", "opened"]

_CPU = 1
_CPU_PINNED = 3
_KINDS = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


_api = ctypes.pythonapi
_api.PyCapsule_GetPointer.restype = ctypes.c_void_p
_api.PyCapsule_GetPointer.argtypes = (ctypes.py_object, ctypes.c_char_p)


class Holder:
    """Keeps a producer's memory alive: an unused capsule frees it when it goes."""

    __slots__ = ("capsule", "producer")

    def __init__(self, capsule: object, producer: object) -> None:
        """Hold both."""
        self.capsule = capsule
        self.producer = producer


def opened(producer: Any, name: str) -> tuple[int, int, DType, bool, Holder]:
    """Address, number of elements, element type, read-only, and what holds the memory.

    Raises:
        UsageError: not in CPU memory, not contiguous, or no known element type.
    """
    device = getattr(producer, "__dlpack_device__", None)
    if device is not None and int(device()[0]) not in (_CPU, _CPU_PINNED):
        raise UsageError(f"{name}: {type(producer).__name__} is not in CPU memory; copy it to the CPU first")
    try:
        capsule = producer.__dlpack__()
        pointer = _api.PyCapsule_GetPointer(capsule, b"dltensor")
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise UsageError(f"{name}: {type(producer).__name__} does not show its memory: {error}") from error
    tensor = _Tensor.from_address(int(pointer))
    dtype = _type_of(tensor, name)
    shape = [tensor.shape[i] for i in range(tensor.ndim)]
    strides = [tensor.strides[i] for i in range(tensor.ndim)] if tensor.strides else None
    count = 1
    for length in reversed(shape):
        count *= length
    if count and strides is not None and not _contiguous(shape, strides):
        raise UsageError(f"{name}: not contiguous (shape {shape}, strides {strides}); pass a contiguous copy")
    addr = int(tensor.data or 0) + int(tensor.byte_offset)
    # Without the versioned form a producer has no way to say "read-only"; NumPy refuses such arrays itself.
    return addr, count, dtype, False, Holder(capsule, producer)


def _contiguous(shape: list[int], strides: list[int]) -> bool:
    expected = 1
    for length, stride in zip(reversed(shape), reversed(strides), strict=True):
        if length != 1 and stride != expected:
            return False
        expected *= length
    return True


def _type_of(tensor: _Tensor, name: str) -> DType:
    kind = _KINDS.get(tensor.code)
    if kind is None or tensor.lanes != 1:
        raise UsageError(
            f"{name}: DLPack type code {tensor.code} x {tensor.lanes} has no type to be reduced or sent"
        )
    return dtype_named("bool" if kind == "bool" else f"{kind}{tensor.bits}")
