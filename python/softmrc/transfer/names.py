"""Which names a sender may give to files: relative, inside of the target, and storable.

Decides about names only; that no link is followed on the way to them is `tree.Tree`'s part. Names travel as
text with surrogate escapes, so that any byte sequence a POSIX file system allows survives.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterable

from softmrc.text import visible
from softmrc.transfer.errors import NameRefusedError

__all__ = ["MAX_DEPTH", "STAGING", "fold", "refuse_clashes", "split_name"]

STAGING = ".softmrc-partial"
"""Directory inside of the target that holds unfinished files; no sender may name it."""
MAX_COMPONENT = 255
"""Bytes of one component (NAME_MAX of the common file systems)."""
MAX_PATH = 4095
"""Bytes of a whole name (PATH_MAX without its NUL)."""
MAX_DEPTH = 128
"""Components of a name; deeper trees are refused."""


def split_name(name: object) -> tuple[str, ...]:
    """Check a name from the peer and return its components.

    Args:
        name: relative path with "/" between components, any type (it comes from the network).

    Raises:
        NameRefusedError: not text, empty, absolute, with "." or ".." or empty components, NUL, over-long, or
        the name of the staging directory.
    """
    if not isinstance(name, str):
        raise NameRefusedError("a file name is not text")
    shown = visible(name[:80])
    if not name:
        raise NameRefusedError("a file name is empty")
    if "\0" in name:
        raise NameRefusedError(f"'{shown}': contains a NUL byte")
    try:
        raw = os.fsencode(name)
    except UnicodeEncodeError:
        raise NameRefusedError(f"'{shown}': cannot be written in the file system's encoding") from None
    if os.fsdecode(raw) != name:
        raise NameRefusedError(f"'{shown}': two spellings of one name")
    if name.startswith("/"):
        raise NameRefusedError(f"'{shown}': absolute")
    if len(raw) > MAX_PATH:
        raise NameRefusedError(f"'{shown}...': longer than {MAX_PATH} bytes")
    parts = tuple(name.split("/"))
    if len(parts) > MAX_DEPTH:
        raise NameRefusedError(f"'{shown}...': more than {MAX_DEPTH} directories deep")
    for part in parts:
        if part in ("", ".", ".."):
            raise NameRefusedError(f"'{shown}': has the component '{part}'")
        if len(os.fsencode(part)) > MAX_COMPONENT:
            raise NameRefusedError(f"'{shown}...': a component is longer than {MAX_COMPONENT} bytes")
    if fold(parts[0]) == STAGING:
        raise NameRefusedError(f"'{shown}': the name of the directory for unfinished files")
    return parts


def fold(name: str) -> str:
    """Return the form in which a case-insensitive, normalising file system compares names."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def refuse_clashes(entries: Iterable[tuple[tuple[str, ...], bool]], ignore_case: bool) -> None:
    """Refuse a set of names of which two mean one file, or one is both a file and a directory.

    Args:
        entries: components and whether it is a directory.
        ignore_case: the target does not tell "A" from "a".

    Raises:
        NameRefusedError: names clash; the text says which two.
    """
    kinds: dict[tuple[str, ...], tuple[tuple[str, ...], bool, bool]] = {}

    def claim(parts: tuple[str, ...], is_dir: bool, listed: bool) -> None:
        key = tuple(map(fold, parts)) if ignore_case else parts
        known = kinds.get(key)
        if known is None:
            kinds[key] = (parts, is_dir, listed)
            return
        other, other_dir, other_listed = known
        names = f"'{visible('/'.join(parts))}' and '{visible('/'.join(other))}'"
        if other != parts:
            raise NameRefusedError(
                f"{names} differ only in case or spelling, which the target directory cannot keep apart"
            )
        if is_dir != other_dir:
            raise NameRefusedError(f"'{visible('/'.join(parts))}' is both a file and a directory")
        if listed and other_listed:
            raise NameRefusedError(f"'{visible('/'.join(parts))}' is listed twice")
        kinds[key] = (other, other_dir, listed or other_listed)

    for parts, is_dir in entries:
        for depth in range(1, len(parts)):
            claim(parts[:depth], True, False)
        claim(parts, is_dir, True)
