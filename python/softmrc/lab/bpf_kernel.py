"""The bpf(2) system call: maps and programs by descriptor, without a library and without files in a bpf file system.

A program that a traffic-control filter holds, and the maps it uses, live exactly as long as the filter; descriptors
here are for reaching them and may be closed at any time.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct

from softmrc.errors import MrcError

__all__ = ["BpfMap", "load_program", "maps_of_program", "new_map", "program_by_id", "supported"]

_NUMBERS = {"x86_64": 321, "aarch64": 280, "riscv64": 280, "s390x": 351, "ppc64le": 361}
_MAP_CREATE, _MAP_LOOKUP, _MAP_UPDATE, _PROG_LOAD = 0, 1, 2, 5
_PROG_BY_ID, _MAP_BY_ID, _INFO_BY_FD = 13, 14, 15
_MAP_TYPE_ARRAY = 2
_PROG_TYPE_SCHED_CLS = 3
_LICENSE = b"Dual BSD/GPL"
_LOG_BYTES = 1 << 20
_libc = ctypes.CDLL(None, use_errno=True)


def _bpf(command: int, attributes: ctypes.Array[ctypes.c_char]) -> int:
    """Make the call; OSError when it is refused."""
    number = _NUMBERS.get(platform.machine())
    if number is None:
        raise OSError(errno.ENOSYS, f"bpf(2) has no known number on {platform.machine()}")
    result = int(_libc.syscall(number, command, ctypes.byref(attributes), len(attributes)))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def _attributes(packed: bytes) -> ctypes.Array[ctypes.c_char]:
    return ctypes.create_string_buffer(packed, 128)


class BpfMap:
    """An array map of one element; a context manager that closes its descriptor."""

    def __init__(self, fd: int, name: str, value_bytes: int) -> None:
        """Take over a descriptor."""
        self.fd, self.name, self.value_bytes = fd, name, value_bytes

    def read(self) -> bytes:
        """Return the element (MrcError when the kernel refuses)."""
        value = ctypes.create_string_buffer(self.value_bytes)
        self._element(_MAP_LOOKUP, value)
        return value.raw

    def write(self, value: bytes) -> None:
        """Replace the element, at once for every packet that comes after (MrcError when the kernel refuses)."""
        if len(value) != self.value_bytes:
            raise ValueError(f"{self.name} takes {self.value_bytes} bytes, not {len(value)}")
        self._element(_MAP_UPDATE, ctypes.create_string_buffer(value, len(value)))

    def _element(self, command: int, value: ctypes.Array[ctypes.c_char]) -> None:
        key = ctypes.c_uint32(0)
        packed = struct.pack("=I4xQQQ", self.fd, ctypes.addressof(key), ctypes.addressof(value), 0)
        try:
            _bpf(command, _attributes(packed))
        except OSError as error:
            raise MrcError(f"BPF map {self.name}: {error.strerror}") from None

    def close(self) -> None:
        """Close the descriptor. Idempotent."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def new_map(name: str, value_bytes: int) -> BpfMap:
    """Make an array map of one element, zero.

    Raises:
        OSError: the kernel has no BPF, or this process may not use it.
    """
    packed = struct.pack("=IIIII8x16s", _MAP_TYPE_ARRAY, 4, value_bytes, 1, 0, name.encode()[:15])
    return BpfMap(_bpf(_MAP_CREATE, _attributes(packed)), name, value_bytes)


def load_program(name: str, code: bytes) -> int:
    """Load a traffic-control classifier and return its descriptor.

    Raises:
        MrcError: the kernel refuses it; the text has the last words of its verifier.
        OSError: the kernel has no BPF, or this process may not use it.
    """
    log = ctypes.create_string_buffer(_LOG_BYTES)
    license_text = ctypes.create_string_buffer(_LICENSE)
    body = ctypes.create_string_buffer(code, len(code))

    def attempt(level: int) -> int:
        packed = struct.pack(
            "=IIQQIIQII16s", _PROG_TYPE_SCHED_CLS, len(code) // 8, ctypes.addressof(body),
            ctypes.addressof(license_text), level, _LOG_BYTES if level else 0, ctypes.addressof(log) if level else 0,
            0, 0, name.encode()[:15],
        )  # fmt: skip
        return _bpf(_PROG_LOAD, _attributes(packed))

    try:
        return attempt(0)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EINVAL):
            raise
    try:
        return attempt(1)
    except OSError as error:
        words = log.value.decode(errors="replace").strip().splitlines()
        raise MrcError(f"BPF program {name}: {error.strerror}: {' | '.join(words[-3:])}") from None


def _info(fd: int, length: int, **addresses: int) -> bytes:
    info = ctypes.create_string_buffer(length)
    for at, value in addresses.items():
        struct.pack_into("=Q" if at.startswith("q") else "=I", info, int(at[1:]), value)
    _bpf(_INFO_BY_FD, _attributes(struct.pack("=IIQ", fd, length, ctypes.addressof(info))))
    return info.raw


def program_by_id(number: int) -> int:
    """Return a descriptor of the program with this number (OSError: there is none, or not for us)."""
    return _bpf(_PROG_BY_ID, _attributes(struct.pack("=III", number, 0, 0)))


def maps_of_program(fd: int) -> dict[str, BpfMap]:
    """Return the maps a program uses, by name; the caller closes them."""
    most = 8
    numbers = (ctypes.c_uint32 * most)()
    # struct bpf_prog_info: nr_map_ids at 52, map_ids at 56.
    raw = _info(fd, 80, i52=most, q56=ctypes.addressof(numbers))
    found = {}
    for number in numbers[: struct.unpack_from("=I", raw, 52)[0]]:
        one = _bpf(_MAP_BY_ID, _attributes(struct.pack("=III", number, 0, 0)))
        # struct bpf_map_info: value_size at 12, name at 24.
        info = _info(one, 48)
        name = info[24:40].split(b"\0")[0].decode()
        found[name] = BpfMap(one, name, struct.unpack_from("=I", info, 12)[0])
    return found


def supported() -> str:
    """Return "" where this process can use BPF, otherwise why it cannot."""
    try:
        new_map("probe", 8).close()
    except OSError as error:
        return f"the kernel refuses BPF ({error.strerror})"
    return ""
