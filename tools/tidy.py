"""Runs clang-tidy over the sources of core/ that a build compiles, in parallel.

Decides which files are looked at and which of them may be skipped: a file is skipped when it, every header of
the core and the settings are as they were when it last passed. The checks themselves are in .clang-tidy.
"""

import argparse
import hashlib
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def sources(build: Path) -> list[Path]:
    """Returns the library sources in core/ of the build's compile commands, tests left out."""
    commands = json.loads((build / "compile_commands.json").read_text())
    files = {Path(c["directory"], c["file"]).resolve() for c in commands}
    core = ROOT / "core"
    return sorted(f for f in files if f.is_relative_to(core) and "tests" not in f.parts)


def shared_digest() -> bytes:
    """Returns a digest of all that concerns every file: headers and settings."""
    digest = hashlib.blake2b((ROOT / ".clang-tidy").read_bytes())
    for header in sorted((ROOT / "core").rglob("*.h")):
        digest.update(str(header.relative_to(ROOT)).encode() + header.read_bytes())
    return digest.digest()


def check(tidy: str, build: Path, file: Path) -> tuple[Path, int, str]:
    """Runs clang-tidy on one file and returns its exit status and report."""
    run = subprocess.run(
        [tidy, "-p", str(build), "--quiet", str(file)], capture_output=True, text=True, check=False
    )
    return file, run.returncode, run.stdout + (run.stderr if run.returncode else "")


def main() -> int:
    """Parses arguments, checks what changed, and returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--tidy", default="clang-tidy")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()

    store = args.build / "tidy-passed.json"
    passed: dict[str, str] = json.loads(store.read_text()) if store.exists() else {}
    shared = shared_digest()
    digests = {f: hashlib.blake2b(shared + f.read_bytes()).hexdigest() for f in sources(args.build)}
    todo = [f for f, d in digests.items() if passed.get(str(f)) != d]
    failed = 0
    with ThreadPoolExecutor(args.jobs) as pool:
        for file, status, report in pool.map(lambda f: check(args.tidy, args.build, f), todo):
            if status:
                failed += 1
                print(f"--- {file.relative_to(ROOT)}\n{report}")
            else:
                passed[str(file)] = digests[file]
    store.write_text(json.dumps(passed))
    if failed:
        print(f"clang-tidy: {failed} of {len(todo)} files with findings", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
