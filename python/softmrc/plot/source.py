"""What figures are drawn from: the document of a result, and the tables beside it where they have more."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softmrc.errors import UsageError
from softmrc.sim.result.files import DOCUMENT, load
from softmrc.text import visible

__all__ = ["Source"]

_NEEDED = ("name", "transport", "seed", "partial", "stopped", "end_ns", "completion_us", "paths")


class Source:
    """A result on disk, by its result.json or the folder of `--out`."""

    def __init__(self, where: str | os.PathLike[str]) -> None:
        """Read the document.

        Raises:
            UsageError: it is missing, no result, or lacks sections that every result has.
        """
        path = Path(where)
        self.document = load(path)
        lacking = [key for key in _NEEDED if key not in self.document]
        if lacking:
            raise UsageError(
                f"{path} lacks {', '.join(lacking)}: it is no whole result; run the scenario again"
            )
        self.folder = path if path.is_dir() else path.parent
        self.beside = path.is_dir() or path.name == DOCUMENT
        """Whether the tables next to the document belong to it."""

    @property
    def title(self) -> str:
        """Name, transport and seed, and whether the run was cut short."""
        made = self.document
        cut = f", partial ({made['stopped']})" if made["partial"] else ""
        return visible(f"{made['name']}: {made['transport']}, seed {made['seed']}{cut}")

    def table(self, name: str) -> dict[str, Any] | None:
        """Return the columns of a table as lists; none if there is no such file.

        Raises:
            UsageError: it cannot be read.
        """
        file = self.folder / f"{name}.parquet"
        if not self.beside or not file.exists():
            return None
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            # By its bytes: pyarrow takes no path whose name the locale cannot write.
            read = pq.read_table(pa.BufferReader(file.read_bytes()))
        except (OSError, pa.ArrowException) as error:
            raise UsageError(f"cannot read {file}: {error}; run the scenario again") from None
        return {column: read.column(column).to_pylist() for column in read.column_names}

    @cached_property
    def _series(self) -> dict[str, dict[str, NDArray[np.float64]]]:
        inline = self.document.get("series") or {}
        if "time_ns" in inline:
            made = {
                quantity: {name: np.array(values, np.float64) for name, values in names.items()}
                for quantity, names in inline.items()
                if isinstance(names, dict)
            }
            return {**made, "": {"time_ns": np.array(inline["time_ns"], np.float64)}}
        table = self.table("series")
        if not table or not table["time_ns"]:
            return {}
        found: dict[str, dict[str, list[float]]] = {}
        times: dict[str, list[float]] = {}
        for time, quantity, name, value in zip(
            table["time_ns"], table["quantity"], table["of"], table["value"], strict=True
        ):
            found.setdefault(quantity, {}).setdefault(name, []).append(value)
            times.setdefault(f"{quantity}/{name}", []).append(time)
        arrays = {q: {n: np.array(v, np.float64) for n, v in names.items()} for q, names in found.items()}
        return {**arrays, "": {"time_ns": np.array(next(iter(times.values())), np.float64)}}

    @property
    def times_ns(self) -> NDArray[np.float64]:
        """Ends of the sampling intervals, ns; empty if nothing was sampled."""
        return self._series.get("", {}).get("time_ns", np.zeros(0))

    def series(self, quantity: str) -> dict[str, NDArray[np.float64]]:
        """Return a sampled quantity by what it is of; empty if it was not sampled."""
        return self._series.get(quantity, {})

    def gbps(self, quantity: str) -> dict[str, NDArray[np.float64]]:
        """Return bytes of each interval as Gb/s, those that ever moved any first by name order."""
        widths = np.diff(np.concatenate(([0.0], self.times_ns)))
        return {name: values * 8.0 / widths for name, values in self.series(quantity).items()}

    def incidents(self, scale: float) -> list[tuple[float, float, str]]:
        """Return start, end and name of the incidents, times multiplied by `scale`."""
        made = []
        for row in (self.document.get("cost") or {}).get("incidents", []):
            end = row.get("repaired_ns") or self.document["end_ns"]
            names = ", ".join(
                f"{f['kind'].replace('_', ' ')} {f['targets'][0]}"
                + (f" +{f['count'] - 1}" if f["count"] > 1 else "")
                for f in row["faults"]
            )
            made.append((row["start_ns"] * scale, end * scale, names))
        return made
