"""What counts as a buffer, where it lies, and what is refused."""

from __future__ import annotations

import array
import ctypes
import mmap
from typing import Any

import numpy as np
import pytest

from softmrc.collectives.buffers import Buffer, as_buffer
from softmrc.collectives.dtypes import Op, dtype_named, known_dtypes, op_for, op_named
from softmrc.errors import UsageError


@pytest.mark.parametrize("dtype", [dtype for dtype in known_dtypes() if dtype.name != "bfloat16"])
def test_numpy_arrays(dtype: Any) -> None:
    values = np.zeros((3, 5), dtype.name)
    found = as_buffer(values, write=True)
    assert (found.addr, found.nbytes, found.type, found.count) == (
        values.ctypes.data,
        values.nbytes,
        dtype,
        15,
    )


class DlpackOnly:
    """An array that offers nothing else."""

    def __init__(self, values: Any) -> None:
        self._values = values

    def __dlpack__(self) -> object:
        return self._values.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        device: tuple[int, int] = self._values.__dlpack_device__()
        return device


@pytest.mark.parametrize("name", ["int8", "uint16", "int64", "float16", "float32", "complex128", "bool"])
def test_dlpack_producers(name: str) -> None:
    values = np.zeros((4, 2), name)
    found = as_buffer(DlpackOnly(values), write=True)
    assert (found.addr, found.nbytes, found.type.name) == (values.ctypes.data, values.nbytes, name)
    with pytest.raises(UsageError, match="not contiguous"):
        as_buffer(DlpackOnly(values[:, 1]), write=True)
    assert as_buffer(DlpackOnly(values[:0]), write=True).nbytes == 0


def test_a_dlpack_buffer_keeps_its_memory() -> None:
    values = np.arange(1000)
    found = as_buffer(DlpackOnly(values), write=False)
    del values
    assert ctypes.c_int64.from_address(found.addr + 8 * 999).value == 999


def test_memory_elsewhere_is_refused() -> None:
    class OnDevice(DlpackOnly):
        def __dlpack_device__(self) -> tuple[int, int]:
            return (2, 0)

    with pytest.raises(UsageError, match="CPU memory"):
        as_buffer(OnDevice(np.zeros(3)), write=True)


@pytest.mark.parametrize(
    ("what", "dtype", "nbytes"),
    [
        (bytearray(12), "uint8", 12),
        (array.array("f", [1.0] * 5), "float32", 20),
        (array.array("l", [1]), "int64", 8),
        (array.array("B", []), "uint8", 0),
        ((ctypes.c_double * 4)(), "float64", 32),
        (mmap.mmap(-1, 4096), "uint8", 4096),
        (memoryview(bytearray(24)).cast("h"), "int16", 24),
        (memoryview(bytearray(24))[3:10], "uint8", 7),
        (np.array(1.0), "float64", 8),
    ],
)
def test_other_buffers(what: Any, dtype: str, nbytes: int) -> None:
    found = as_buffer(what, write=True)
    assert (found.type.name, found.nbytes) == (dtype, nbytes)


def test_odd_addresses() -> None:
    memory = bytearray(100)
    base = as_buffer(memory, write=True).addr
    assert as_buffer(memoryview(memory)[13:], write=True).addr == base + 13


@pytest.mark.parametrize(
    ("what", "words"),
    [
        (b"abc", "read-only"),
        (np.broadcast_to(np.zeros(3), (4, 3)), "not contiguous|read-only"),
        (np.zeros((4, 4))[:, 0], "not contiguous"),
        (np.zeros((4, 4)).T[:, 1:], "not contiguous"),
        (np.zeros(4)[::-1], "not contiguous"),
        (np.zeros(2, ">i4"), "another order"),
        (np.zeros(2, "S3"), "cannot be reduced"),
        (np.zeros(2, [("a", "i4")]), "cannot be reduced"),
        (np.zeros(2, np.longdouble), "cannot be reduced"),
        ("text", "no buffer"),
        (3.5, "no buffer"),
        (None, "no buffer"),
    ],
)
def test_refusals(what: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        as_buffer(what, write=True, name="out")


def test_own_buffers() -> None:
    whole = Buffer(4096, 64, dtype_named("float64").code)
    assert whole.part(8, 16) == Buffer(4104, 16, whole.dtype)
    assert whole.overlaps(whole.part(56, 8))
    assert not whole.part(0, 8).overlaps(whole.part(8, 8))
    assert not whole.part(8, 0).overlaps(whole)
    for wrong in ((0, 8, 0), (4096, -1, 0), (4096, 7, 11), (4096, 8, 15)):
        with pytest.raises(UsageError):
            Buffer(*wrong)
    with pytest.raises(UsageError, match="read-only"):
        as_buffer(Buffer(4096, 8, readonly=True), write=True)


def test_names_of_types_and_operations() -> None:
    assert dtype_named("torch.bfloat16").code == 9
    assert dtype_named("double") is dtype_named(11)
    assert op_named("Avg") is Op.AVG
    assert op_named(8) is Op.PREMUL_SUM
    for wrong in (
        lambda: dtype_named("float8"),
        lambda: dtype_named(15),
        lambda: op_named("xor"),
        lambda: op_named(9),
    ):
        with pytest.raises(UsageError):
            wrong()


def test_what_goes_together() -> None:
    """B39: AVG and PREMUL_SUM of integers and bools, order of complex, bits of floats: refused."""
    refused = {(dtype.kind, op) for dtype in known_dtypes() for op in Op if not _goes(dtype.name, op)}
    weighed, bits = {Op.AVG, Op.PREMUL_SUM}, {Op.BAND, Op.BOR, Op.BXOR}
    expected = {(kind, op) for kind in "iub" for op in weighed}
    expected |= {(kind, op) for kind in "fc" for op in bits} | {("c", Op.MIN), ("c", Op.MAX)}
    assert refused == expected


def _goes(dtype: str, op: Op) -> bool:
    try:
        op_for(dtype_named(dtype), op)
    except UsageError:
        return False
    return True
