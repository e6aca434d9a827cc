"""What commands do when standard output takes nothing, and how they show names of others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from softmrc.text import visible

VECTORS = Path(__file__).parents[2] / "data" / "vectors.json"
COMMANDS = [
    ["--help"],
    ["doctor"],
    ["doctor", "--json"],
    ["chaos", "--packets", "200"],
    ["vectors", str(VECTORS), "--json"],
]


def run(args, stdout, **kw):
    command = [sys.executable, "-m", "softmrc.cli.app", *args]
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=50, **kw)


@pytest.mark.parametrize("args", COMMANDS, ids=" ".join)
def test_a_full_output_is_one_line_and_a_failure(args):
    with open("/dev/full", "w") as full:
        done = run(args, full)
    assert done.returncode == 1
    assert done.stderr.splitlines() == ["softmrc: cannot write to standard output: No space left on device"]


def test_an_error_keeps_its_code_when_its_object_cannot_be_printed(tmp_path):
    with open("/dev/full", "w") as full:
        done = run(["send", str(tmp_path / "none"), "127.0.0.1:1", "--json"], full)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "none: No such file" in line


@pytest.mark.parametrize("args", [["--help"], ["vectors", str(VECTORS)], ["doctor", "--json"]], ids=" ".join)
def test_a_reader_that_left_is_no_event(args):
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as gone:
        done = run(args, gone)
    assert done.returncode == 1
    assert done.stderr == ""


def test_no_standard_output_at_all():
    module = "[sys.executable, '-m', 'softmrc.cli.app', '--version']"
    code = f"import os, sys; os.close(1); os.execv(sys.executable, {module})"
    done = subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, timeout=50)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a\x1b[2Jb", r"a\x1b[2Jb"),
        (os.fsdecode(b"caf\xe9"), r"caf\xe9"),
        ("caf\N{LATIN SMALL LETTER E WITH ACUTE}", "caf\N{LATIN SMALL LETTER E WITH ACUTE}"),
        ("evil\u202etxt", r"evil\u202etxt"),
        ("two\nlines", r"two\nlines"),
        ("\x7f\x00", r"\x7f\x00"),
    ],
)
def test_names_are_shown_harmless(name, shown):
    assert visible(name) == shown


def test_lines_stay_lines_when_asked():
    assert visible("a\nb\r\x1b", lines=True) == "a\nb\\r\\x1b"


def test_send_shows_no_control_bytes_of_names(tmp_path):
    source = tmp_path / "dir"
    source.mkdir()
    bad = os.path.join(os.fsencode(source), b"x\x1b[31m\xff")
    os.symlink("nowhere", bad)
    done = run(["send", str(source), "127.0.0.1:1"], subprocess.PIPE)
    assert r"x\x1b[31m\xff: symbolic link" in done.stderr
    done = run(["send", os.fsdecode(bad), "127.0.0.1:1"], subprocess.PIPE)
    assert r"x\x1b[31m\xff" in done.stderr
    assert "\x1b" not in done.stderr


def test_remarks_about_paths_come_through_once(capfd: pytest.CaptureFixture[str]) -> None:
    code = (
        "import logging\nfrom softmrc.cli.output import quiet_library\n"
        "for _ in range(2):\n    quiet_library()\n"
        "    logging.getLogger('softmrc').warning('planes')\n"
        "    logging.getLogger('softmrc.paths').warning('size %d', 1152)\n"
        "    logging.getLogger('softmrc.paths').info('chosen')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert capfd.readouterr().err == "size 1152\n"


def test_what_the_locale_cannot_write_becomes_an_escape(tmp_path):
    scenario = tmp_path / "sc\u00e9n.toml"
    text = '[fabric]\nhosts = 2\nplanes = 1\nhosts_per_t0 = 2\n[workload]\nkind = "permutation"\nsize = 9\n'
    scenario.write_text(text)
    plain = {**os.environ, "LC_ALL": "C.UTF-8", "PYTHONIOENCODING": "ascii"}
    done = run(["sim", "run", str(scenario), "--no-progress"], subprocess.PIPE, env=plain)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("sc\\xe9n  mrc")
