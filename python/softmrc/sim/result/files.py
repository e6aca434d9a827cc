"""Results as files: one JSON document and Parquet tables.

`result.json` is the document; `tasks`, `links` (those ever used), `series` and `ev_events` are tables. With one seed
and one version of this package and its libraries the bytes are the same every time; the document's section `timing` is
the exception and can be left out. `series` is long (time, quantity, of what, value), so that it looks the same whatever
was watched.
"""

from __future__ import annotations

import io
import json
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from softmrc.errors import UsageError
from softmrc.sim.result.outdir import prepare, write_file
from softmrc.sim.result.paths import named
from softmrc.sim.result.ports import port_names
from softmrc.sim.result.series import columns

if TYPE_CHECKING:
    import pyarrow as pa

    from softmrc.sim.result.model import Result

__all__ = ["DOCUMENT", "load", "parquet_bytes", "plain", "save", "tables", "to_json"]

DOCUMENT = "result.json"


def plain(value: Any) -> Any:
    """Return a value as JSON takes it: numbers of numpy become plain, infinities and NaN become null."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def to_json(document: Any, *, indent: int | None = None) -> str:
    """Return a document as JSON; the same document gives the same bytes."""
    separators = (",", ":") if indent is None else (",", ": ")
    return json.dumps(plain(document), indent=indent, separators=separators, allow_nan=False)


def tables(result: Result) -> dict[str, pa.Table]:
    """Return the tables of a result by name.

    Raises:
        UsageError: pyarrow is not installed.
    """
    try:
        import pyarrow as pa
    except ImportError:
        raise UsageError("Parquet files need pyarrow: pip install 'softmrc[sim]'") from None
    out, work = result.outcome, result.workload
    tasks = {
        "task": np.arange(work.kind.size, dtype=np.int64),
        "kind": pa.array(np.where(work.kind == 0, "send", "compute").tolist()).dictionary_encode(),
        "node": work.node,
        "peer": work.peer,
        "bytes": work.size,
        "group": pa.DictionaryArray.from_arrays(
            pa.array(work.group.astype(np.int32)), pa.array(work.groups, pa.string())
        ),
        **{name: out.tasks[name] for name in ("ready_ns", "posted_ns", "delivered_ns", "acked_ns", "status")},
        **{name: out.flows[name] for name in ("delivered_bytes", "rtx")},
    }
    used = np.flatnonzero((out.links["tx_packets"] > 0) | (out.links["drops"] > 0) | (out.links["lost"] > 0))
    links = {
        "link": port_names(out.fabric, used),
        **{name: values[used] for name, values in out.links.items()},
    }
    return {
        "tasks": pa.table(tasks),
        "links": pa.table(links),
        "series": _series(result, pa),
        "ev_events": pa.table(named(out.ev_events)),
    }


def _series(result: Result, pa: Any) -> pa.Table:
    schema = pa.schema(
        [
            ("time_ns", pa.int64()),
            ("quantity", pa.dictionary(pa.int32(), pa.string())),
            ("of", pa.dictionary(pa.int32(), pa.string())),
            ("value", pa.int64()),
        ]
    )
    found = columns(result)
    if not found:
        return schema.empty_table()
    times = result.outcome.series["time_ns"]
    pairs = [(quantity, name) for quantity, names in found.items() for name in names]
    values = np.concatenate([found[quantity][name].astype(np.int64) for quantity, name in pairs])

    def labels(words: list[str]) -> Any:
        distinct = list(dict.fromkeys(words))
        place = {word: i for i, word in enumerate(distinct)}
        codes = np.repeat(np.array([place[word] for word in words], dtype=np.int32), times.size)
        return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(distinct, pa.string()))

    columns_made = [
        np.tile(times, len(pairs)),
        labels([q for q, _ in pairs]),
        labels([n for _, n in pairs]),
        values,
    ]
    return pa.table(columns_made, schema=schema)


def parquet_bytes(table: pa.Table) -> bytes:
    """Return a table as a Parquet file; the same table gives the same bytes."""
    import pyarrow.parquet as pq

    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd", use_dictionary=True)
    return buffer.getvalue()


def save(result: Result, folder: str | os.PathLike[str], *, timing: bool = True) -> list[Path]:
    """Write a result and return its files.

    Args:
        result: what to write.
        folder: where; made if need be. Call `prepare` before the run to learn of trouble in time.
        timing: with wall times in the document.

    Raises:
        UsageError: the folder cannot be written to, or pyarrow is missing.
        OSError: the disk is full.
    """
    path = prepare(folder)
    made = []
    for name, table in tables(result).items():
        made.append(path / f"{name}.parquet")
        write_file(made[-1], parquet_bytes(table))
    # Last, so that a folder with a document is complete.
    made.append(path / DOCUMENT)
    write_file(made[-1], (to_json(result.document(timing=timing), indent=1) + "\n").encode())
    return made


def load(where: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the document of a result, from its file or its folder.

    Raises:
        UsageError: there is none, or it is no result of this format.
    """
    from softmrc.sim.result.model import FORMAT

    path = Path(where)
    file = path / DOCUMENT if path.is_dir() else path
    try:
        document = json.loads(file.read_text())
    except FileNotFoundError:
        raise UsageError(f"{file} does not exist; name a result.json or the folder of --out") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {file}: {error}") from None
    except json.JSONDecodeError as error:
        raise UsageError(f"{file}:{error.lineno}: no JSON: {error.msg}") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise UsageError(
            f"{file} is no result of this version: its format is not {FORMAT!r}; run the scenario again"
        )
    return document
