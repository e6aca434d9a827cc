"""Prints what pyproject.toml asks for, one requirement a line: build tools, dependencies, all extras."""

import sys
import tomllib
from pathlib import Path


def main() -> None:
    """Reads pyproject.toml of the repository and writes the requirements to stdout."""
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    wanted = [
        *project["build-system"]["requires"],
        *project["project"]["dependencies"],
        *extras["plot"],
        *extras["metrics"],
        *extras["dev"],
    ]
    sys.stdout.write("".join(f"{line}\n" for line in wanted))


if __name__ == "__main__":
    main()
