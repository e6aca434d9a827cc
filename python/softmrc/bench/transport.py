"""The catalogue of rows, and the run through them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from softmrc.bench.bench import Bench
from softmrc.bench.place import Place
from softmrc.bench.rows_host import HOST_ROWS
from softmrc.bench.rows_many import MANY_ROWS
from softmrc.bench.rows_path import PATH_ROWS
from softmrc.bench.settings import Settings
from softmrc.bench.site import Sites
from softmrc.bench.table import Row, RowResult
from softmrc.bench.tcp import missing_iperf3, missing_mptcp
from softmrc.bench.yard import missing_af_packet, missing_io_uring
from softmrc.errors import MrcError, UsageError
from softmrc.netns import missing as missing_namespaces

__all__ = ["ROWS", "choose", "run_rows", "skip_reason"]

ROWS: tuple[Row, ...] = (*PATH_ROWS, *MANY_ROWS, *HOST_ROWS)


def choose(names: Sequence[str]) -> list[Row]:
    """Return the rows of these names in the order of the catalogue; all of them for none.

    Raises:
        UsageError: a name is unknown; the text lists those there are.
    """
    known = {row.name for row in ROWS}
    if unknown := sorted(set(names) - known):
        raise UsageError(f"no row {unknown[0]!r}; there are {', '.join(row.name for row in ROWS)}")
    return [row for row in ROWS if not names or row.name in names]


def _lacking(need: str, place: Place) -> str | None:
    if need == "iperf3":
        return missing_iperf3()
    if need == "mptcp":
        return missing_mptcp()
    if need == "io_uring":
        return missing_io_uring()
    if need == "af_packet":
        return missing_af_packet()
    if need == "cores":
        return None if place.cores > 1 else "needs two cores"
    return None  # networks are judged as a whole


def skip_reason(row: Row, place: Place) -> str | None:
    """Return why this host cannot measure a row; None: it can."""
    lacks = list(missing_namespaces()) if not row.loopback else []
    for need in row.needs:
        if need not in ("netns", "srv6") and (why := _lacking(need, place)):
            lacks.append(why)
    return ", ".join(dict.fromkeys(lacks)) or None


@contextmanager
def _bench(settings: Settings, place: Place) -> Iterator[Bench]:
    with Sites() as sites:
        yield Bench(settings, place, sites)


def run_rows(rows: Sequence[Row], settings: Settings, done: Callable[[RowResult], None]) -> None:
    """Measure rows and hand over each result as soon as it is there.

    Whatever the networks were is gone afterwards, also after KeyboardInterrupt.
    """
    place = Place.of_this_process()
    with _bench(settings, place) as bench:
        for row in rows:
            if why := skip_reason(row, place):
                done(RowResult.skipped(row, why))
                continue
            settings.say(row.about)
            try:
                result = RowResult.of(row, row.run(bench))
            except MrcError as error:
                result = RowResult.failed(row, str(error))
            done(result)
