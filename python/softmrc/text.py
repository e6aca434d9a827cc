"""Text fit for a terminal: names of files and words of peers, addresses with their ports."""

from __future__ import annotations

__all__ = ["host_port", "visible"]


def visible(text: str, *, lines: bool = False) -> str:
    r"""Return text that does nothing to a terminal: control characters and stray bytes become escapes.

    Args:
        text: anything; bytes that are no UTF-8 as Python carries them in file names (surrogate escapes).
        lines: keep line ends; without it they are escaped, so that a name cannot pass for a second line.

    Returns:
        The text, with \xff for a stray byte and \x1b, \n or \u202e for a character that is not printable.
    """
    return "".join(c if c.isprintable() or (lines and c == "\n") else _escaped(c) for c in text)


def host_port(host: str, port: int) -> str:
    """Return an address and a port the way they are typed: an IPv6 address stands in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _escaped(char: str) -> str:
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    return char.encode("unicode_escape", "surrogatepass").decode("ascii")
