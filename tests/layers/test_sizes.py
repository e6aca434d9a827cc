"""Files and functions stay small enough to be read at once; exceptions are listed here with their reason."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.layers.cpp_functions import functions
from tests.layers.repo import ROOT, tracked

CPP_FILE, PYTHON_FILE, FUNCTION = 500, 400, 60
# Tests are counted apart: a story may be longer than a mechanism, and a room's stories stand together.
TEST_FACTOR = 1.6
# Path -> reason. A file leaves this list when it is split.
FILE_EXCEPTIONS: dict[str, str] = {}
# "path:function" -> reason.
FUNCTION_EXCEPTIONS: dict[str, str] = {}


def sized(suffixes: set[str]) -> list[Path]:
    return [f for f in tracked() if f.suffix in suffixes]


def limit_of(file: Path, limit: int) -> int:
    return int(limit * TEST_FACTOR) if "tests" in file.relative_to(ROOT).parts else limit


def name(file: Path) -> str:
    return str(file.relative_to(ROOT))


def test_files() -> None:
    big = []
    for suffixes, limit in (({".h", ".cc"}, CPP_FILE), ({".py"}, PYTHON_FILE)):
        for file in sized(suffixes):
            lines = file.read_text().count("\n")
            if lines > limit_of(file, limit) and name(file) not in FILE_EXCEPTIONS:
                big.append(f"{name(file)}: {lines} lines, limit {limit_of(file, limit)}")
    assert big == []


def test_cpp_functions() -> None:
    big = []
    for file in sized({".h", ".cc"}):
        for line, length, head in functions(file.read_text()):
            key = f"{name(file)}:{head.split('(')[0].split()[-1] if '(' in head else head}"
            if length > limit_of(file, FUNCTION) and key not in FUNCTION_EXCEPTIONS:
                big.append(f"{name(file)}:{line}: {length} lines, limit {limit_of(file, FUNCTION)} ({key})")
    assert big == []


def test_python_functions() -> None:
    big = []
    for file in sized({".py"}):
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            key = f"{name(file)}:{node.name}"
            if length > limit_of(file, FUNCTION) and key not in FUNCTION_EXCEPTIONS:
                big.append(
                    f"{name(file)}:{node.lineno}: {length} lines, limit {limit_of(file, FUNCTION)} ({key})"
                )
    assert big == []


def test_the_cpp_measure_finds_functions() -> None:
    body = "\n".join(["  int x = 0;"] * 70)
    text = f'namespace a {{\nstruct S {{\n  int f() const {{\n{body}\n  }}\n}};\nint k[] = {{1, 2}};\n}}  // "}}"\n'
    found = list(functions(text))
    assert [(line, length) for line, length, _ in found] == [(3, 72)]


def test_exceptions_are_needed() -> None:
    for path in FILE_EXCEPTIONS:
        assert (ROOT / path).exists()
    for key in FUNCTION_EXCEPTIONS:
        assert (ROOT / key.rsplit(":", 1)[0]).exists()


def test_rooms_have_short_readmes() -> None:
    for room in sorted((ROOT / "core").iterdir()):
        readme = room / "README.md"
        assert readme.exists(), f"{name(room)} has no README.md"
        assert readme.read_text().count("\n") <= 40, f"{name(readme)} is longer than 40 lines"
