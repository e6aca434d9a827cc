"""Figures: each kind draws from what its result has, says what is missing, and has the same bytes each time."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.unit.sim.outcomes import LINKS, ev_events, fault, outcome, workload

from softmrc.errors import UsageError
from softmrc.plot import KINDS, Source, draw, kinds
from softmrc.plot.draw import draw_all, draw_sweep
from softmrc.plot.style import COLORS, line_look, save, time_axis
from softmrc.sim.result import Result
from softmrc.sim.result import save as save_result

MS = 1_000_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Everything a result can have: steps, series, an incident, EV changes."""
    work = workload(
        sends=[(0, 1, 4_000)] * 4,
        groups=("data", "victim"),
        group=[0, 0, 0, 1],
        steps=[(str(i), [i]) for i in range(4)],
    )
    times = np.arange(1, 9, dtype=np.int64) * MS
    rng = np.random.default_rng(1)
    events = ev_events((4 * MS, 2, 1), (6 * MS, 1, 3))
    out = outcome(
        work,
        [2 * MS, 3 * MS, 6 * MS, 7 * MS],
        ev_events=events,
        watch_flows=[0, 3],
        watch_links=list(LINKS[:2]),
        series={
            "time_ns": times,
            **{
                name: rng.integers(1, 9_000, (8, width))
                for name, width in [
                    ("flow_bytes", 2),
                    ("group_bytes", 2),
                    ("plane_bytes", 1),
                    ("link_bytes", 2),
                    ("link_queue_bytes", 2),
                    ("link_max_queue", 2),
                ]
            },
        },
    )
    made = Result(
        name="all",
        transport="mrc",
        settings={},
        workload=work,
        outcome=out,
        faults=[fault(4 * MS, "link_down", "p1.t0-0.t1-0"), fault(5 * MS, "link_up", "p1.t0-0.t1-0")],
    )
    save_result(made, tmp_path, timing=False)
    return tmp_path


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_an_svg_with_units(folder: Path, kind: str) -> None:
    figure = draw(Source(folder), kind)
    file = save(figure, folder / f"{kind}.svg")
    text = file.read_text()
    assert ET.fromstring(text).tag.endswith("svg")
    assert "(us)" in text if kind == "fct" else "simulated time (ms)" in text
    assert {"fct": "share of flows", "steps": "steps/s", "queue": "kB", "ev": "EV"}.get(kind, "Gb/s") in text


def test_equal_results_have_equal_figures(folder: Path) -> None:
    first = [file.read_bytes() for file in draw_all(Source(folder), folder / "a")]
    second = [file.read_bytes() for file in draw_all(Source(folder), folder / "b")]
    assert len(first) == len(KINDS)
    assert first == second
    for name in ("c.png", "d.png"):
        save(draw(Source(folder), "goodput"), folder / name)
    assert (folder / "c.png").read_bytes() == (folder / "d.png").read_bytes()


def test_the_tables_stand_in_for_series_that_are_too_long(folder: Path) -> None:
    whole = Source(folder)
    text = (folder / "result.json").read_text()
    start = text.index('"series"')
    # The document without its series, as one of very many samples has it.
    (folder / "result.json").write_text(
        text[:start] + '"series": {"samples": 8, "omitted": "see the table"}\n}\n'
    )
    short = Source(folder)
    assert "omitted" in short.document["series"]
    assert short.times_ns.tolist() == whole.times_ns.tolist()
    assert short.gbps("link_bytes")[LINKS[0]].tolist() == whole.gbps("link_bytes")[LINKS[0]].tolist()
    assert kinds(short) == kinds(whole)


def test_incidents_are_shaded(folder: Path) -> None:
    figure = draw(Source(folder), "steps")
    labels = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert "link down p1.t0-0.t1-0" in labels


def test_a_legend_never_covers_data(folder: Path) -> None:
    figure = draw(Source(folder), "goodput")
    figure.canvas.draw()
    for axes in figure.axes:
        box, data = axes.get_legend().get_window_extent(), axes.get_window_extent()
        assert box.x0 >= data.x1


def test_what_there_is_no_data_for_is_said(tmp_path: Path) -> None:
    work = workload(sends=[(0, 1, 1 << 62)])
    made = Result(
        name="bare",
        transport="tcp",
        settings={},
        workload=work,
        outcome=outcome(work, [-1]),
    )
    save_result(made, tmp_path)
    source = Source(tmp_path)
    assert kinds(source) == []
    with pytest.raises(UsageError, match=r"bare has no data for 'goodput': it needs \[sample\]"):
        draw(source, "goodput")
    with pytest.raises(UsageError, match="no figure 'pie'"):
        draw(source, "pie")


def test_other_endings_and_places_are_refused(folder: Path) -> None:
    figure = draw(Source(folder), "fct")
    with pytest.raises(UsageError, match=r"figures are \.svg, \.png, \.pdf"):
        save(figure, folder / "x.bmp")
    with pytest.raises(UsageError, match=r"cannot write /proc/none/x\.svg"):
        save(figure, "/proc/none/x.svg")


def test_sweeps(tmp_path: Path) -> None:
    rows = [
        {"case": case, "seed": seed, "fct_p99_us": 10.0 * seed, "error": None}
        for case in "ab"
        for seed in (1, 2)
    ]
    file = tmp_path / "sweep.parquet"
    pq.write_table(pa.Table.from_pylist(rows), file)
    figure = draw_sweep(file, "fct_p99_us")
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["a", "b"]
    with pytest.raises(UsageError, match="no cell of the sweep has 'speed'; there is fct_p99_us"):
        draw_sweep(file, "speed")
    file.write_text("no parquet")
    with pytest.raises(UsageError, match="cannot read"):
        draw_sweep(file, "fct_p99_us")


def test_lines_differ_and_time_has_a_fitting_unit() -> None:
    looks = [tuple(line_look(i).values()) for i in range(4 * len(COLORS))]
    assert len(set(looks)) == len(looks)
    assert [time_axis(ns)[1] for ns in (900, 5e3, 5e6, 5e9)] == ["ns", "us", "ms", "s"]
