"""Finds C++ function bodies well enough to measure them: braces are counted outside of comments and strings."""

from __future__ import annotations

import re
from collections.abc import Iterator

_NOISE = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', re.DOTALL
)
# What opens a block that is not a function: a type, a namespace, an initialiser.
_NOT_A_FUNCTION = re.compile(r"\b(namespace|struct|class|enum|union|extern)\b[^()]*$|[=,(]\s*$|\breturn\s*$")


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match.group())


def functions(text: str) -> Iterator[tuple[int, int, str]]:
    """Yields first line, number of lines and head of each outermost function body in `text`."""
    clean = _NOISE.sub(_blank, text)
    start = 0  # where the text before the next brace begins
    stack: list[tuple[bool, int, str]] = []
    for match in re.finditer(r"[{};]", clean):
        sign, at = match.group(), match.start()
        inside = any(is_function for is_function, _, _ in stack)
        if sign == "{":
            head = " ".join(clean[start:at].split())
            is_function = not inside and ")" in head and not _NOT_A_FUNCTION.search(head)
            stack.append((is_function, at, head))
        elif sign == "}" and stack:
            is_function, begin, head = stack.pop()
            if is_function:
                first = clean.count("\n", 0, begin) + 1
                yield first, clean.count("\n", begin, at) + 1, head
        if not inside or sign == "}":
            start = at + 1
