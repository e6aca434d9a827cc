"""Reads a compiled BPF object and puts single programs with maps of their own into the kernel.

Decides how maps are made for a program and how its instructions find them. Leaves compiling to bpf_build.py, attaching
to queues.py and ends.py.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass, field

from softmrc.errors import MrcError
from softmrc.lab.bpf_kernel import BpfMap, load_program, new_map

__all__ = ["BpfObject", "Loaded"]

_EM_BPF = 247
_SHT_SYMTAB, _SHT_REL = 2, 9
_LOAD_64 = 0x18  # the instruction that gets the address of a map
_LOAD_64_BYTES = 16
_MAP_FD = 1
_MAPS = "maps"
_PROGRAM = "tc/"


@dataclass
class _Program:
    code: bytes = b""
    uses: dict[int, str] = field(default_factory=dict)  # offset of an instruction -> map


@dataclass
class Loaded:
    """A program in the kernel and its maps: descriptors, closed by `close` once a filter holds the program."""

    fd: int
    maps: dict[str, BpfMap]

    def close(self) -> None:
        """Close the descriptors; what a filter uses lives on. Idempotent."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
        for one in self.maps.values():
            one.close()


class BpfObject:
    """The programs of one object file."""

    def __init__(self, data: bytes) -> None:
        """Read it.

        Raises:
            MrcError: it is no little-endian BPF object with programs in sections `tc/NAME` and sizes in `maps`.
        """
        try:
            self._read(data)
        except (struct.error, IndexError, KeyError, ValueError) as error:
            raise MrcError(f"no usable BPF object: {error!r}") from None

    def _read(self, data: bytes) -> None:
        if data[:6] != b"\x7fELF\x02\x01" or struct.unpack_from("<H", data, 18)[0] != _EM_BPF:
            raise ValueError("the header is another one")
        start, size, count, names_at = struct.unpack_from("<Q10xHHH", data, 40)
        headers = [struct.unpack_from("<IIQQQQII16x", data, start + i * size) for i in range(count)]

        def content(header: tuple[int, ...]) -> bytes:
            return data[header[4] : header[4] + header[5]]

        def text(table: bytes, at: int) -> str:
            return table[at : table.index(b"\0", at)].decode()

        names = content(headers[names_at])
        titles = [text(names, h[0]) for h in headers]
        (symtab,) = (h for h in headers if h[1] == _SHT_SYMTAB)
        strings = content(headers[symtab[6]])
        symbols = [
            (text(strings, name), section, value)
            for name, _, _, section, value, _ in struct.iter_unpack("<IBBHQQ", content(symtab))
        ]
        maps = titles.index(_MAPS)
        sizes = content(headers[maps])
        self.map_bytes: dict[str, int] = {
            name: struct.unpack_from("<I", sizes, value)[0]
            for name, section, value in symbols
            if section == maps and name
        }
        self._programs: dict[str, _Program] = {
            title.removeprefix(_PROGRAM): _Program(content(h))
            for title, h in zip(titles, headers, strict=True)
            if title.startswith(_PROGRAM)
        }
        for header in headers:
            if header[1] == _SHT_REL and titles[header[7]].startswith(_PROGRAM):
                program = self._programs[titles[header[7]].removeprefix(_PROGRAM)]
                for at, info in struct.iter_unpack("<QQ", content(header)):
                    if at + _LOAD_64_BYTES > len(program.code):
                        raise ValueError("a map is used behind the end of its program")
                    program.uses[at] = symbols[info >> 32][0]

    def load(self, name: str) -> Loaded:
        """Put a program into the kernel with new maps, all zero.

        Raises:
            MrcError: there is no such program, or the kernel refuses it.
            OSError: the kernel has no BPF, or this process may not use it.
        """
        if name not in self._programs:
            raise MrcError(f"the BPF object has no program {name}")
        program = self._programs[name]
        maps: dict[str, BpfMap] = {}
        try:
            code = bytearray(program.code)
            for at, wanted in program.uses.items():
                if code[at] != _LOAD_64 or wanted not in self.map_bytes:
                    raise MrcError(f"the BPF program {name} refers to {wanted}, which is no map")
                if wanted not in maps:
                    maps[wanted] = new_map(wanted, self.map_bytes[wanted])
                code[at + 1] = code[at + 1] & 0x0F | _MAP_FD << 4
                struct.pack_into("<i", code, at + 4, maps[wanted].fd)
            return Loaded(load_program(name, bytes(code)), maps)
        except BaseException:
            Loaded(-1, maps).close()
            raise
