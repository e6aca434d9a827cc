"""Figures, documents and tables of a result, on outcomes small enough to check by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.unit.sim.outcomes import FABRIC, LINKS, ev_events, fault, outcome, workload

from softmrc.errors import UsageError
from softmrc.sim.config import Clos
from softmrc.sim.fabric import build
from softmrc.sim.result import Result, load, prepare, save, to_json
from softmrc.sim.result.percentiles import jain, summary
from softmrc.sim.result.ports import port_names
from softmrc.sim.workload import Collective


def result(**changes: Any) -> Result:
    work = changes.pop("work", None) or workload(sends=[(0, 1, 1_000), (1, 0, 4_000)])
    out = changes.pop("out", None) or outcome(work, [1_000, 2_000])
    made = {
        "name": "two",
        "transport": "mrc",
        "settings": {},
        "workload": work,
        "outcome": out,
    }
    return Result(**{**made, **changes})


def sampled() -> Result:
    work = workload(sends=[(0, 1, 3_000)])
    out = outcome(
        work,
        [300],
        series={
            "time_ns": np.array([100, 200, 300], np.int64),
            "group_bytes": np.array([[1_000], [500], [1_500]], np.int64),
            "flow_bytes": np.array([[1_000], [500], [1_500]], np.int64),
            "link_bytes": np.array([[7, 8], [9, 10], [11, 12]], np.int64),
            "drops": np.array([0, 2, 0], np.int64),
        },
        watch_flows=[0],
        watch_links=list(LINKS[:2]),
    )
    return result(work=work, out=out)


def test_percentiles_by_hand() -> None:
    got = summary(np.array([40, 10, 30, 20]), scale=0.5)
    assert (got["count"], got["mean"], got["min"], got["max"]) == (4, 12.5, 5, 20)
    assert got["p50"] == 12.5  # between the second and the third of 5 10 15 20
    assert got["percentiles"][0] == 5
    assert got["percentiles"][100] == 20
    assert len(got["percentiles"]) == 101
    assert got["p99"] == pytest.approx(19.85)
    assert summary(np.array([])) == {"count": 0}
    assert summary(np.array([7]))["p99_9"] == 7


def test_jain() -> None:
    assert jain(np.array([5, 5, 5])) == 1.0
    assert jain(np.array([9, 0, 0])) == pytest.approx(1 / 3, abs=1e-6)
    assert jain(np.array([0, 0])) is None


def test_a_run_with_failed_tasks_ends_when_the_run_does() -> None:
    work = workload(sends=[(0, 1, 1_000), (1, 0, 1_000)])
    out = outcome(work, [400, -1], sim_ns=50_000)
    out.tasks["status"][1] = 2
    made = result(work=work, out=out, clean_end_ns=400).document()
    assert made["end_ns"] == 50_000
    assert made["goodput"]["total_gbps"] == pytest.approx(1_000 * 8 / 50_000)
    out = outcome(work, [-1, -1], sim_ns=50_000)
    out.tasks["status"][:] = 2
    assert result(work=work, out=out).document()["goodput"]["total_gbps"] == 0.0


def test_what_never_finished_took_no_longer_than_without_incidents() -> None:
    work = workload(sends=[(0, 1, 1_000)])
    out = outcome(work, [-1], sim_ns=50_000)
    out.tasks["status"][0] = 2
    cut = [fault(10, "link_down", "h0")]
    cost = result(work=work, out=out, faults=cut, clean_end_ns=400).document()["cost"]
    assert cost["versus_clean"] is None
    assert cost["incidents"][0]["start_ns"] == 10


def test_completion_and_goodput() -> None:
    document = result().document()
    times = document["completion_us"]["all"]
    assert (times["count"], times["min"], times["max"]) == (2, 1.0, 2.0)
    assert document["completion_us"]["groups"]["flows"] == times
    # 1,000 bytes in 1,000 ns are 8 Gb/s, 4,000 bytes in 2,000 ns are 16 Gb/s;
    # all of it was there after 2,000 ns, acknowledged after 2,010.
    flows = document["goodput"]["flows_gbps"]["flows"]
    assert (flows["min"], flows["max"]) == (8.0, 16.0)
    assert document["goodput"]["total_gbps"] == pytest.approx(5_000 * 8 / 2_000, abs=1e-4)
    assert document["tasks"]["done"] == 2
    assert (document["partial"], document["stopped"]) == (False, "done")


def test_what_is_not_done_is_not_a_completion() -> None:
    work = workload(sends=[(0, 1, 1_000), (1, 0, 1 << 62)])
    out = outcome(work, [1_000, -1], sim_ns=5_000, stopped="until")
    out.flows["delivered_bytes"] = np.array([1_000, 50_000], np.int64)
    document = result(work=work, out=out).document()
    assert document["completion_us"]["all"]["count"] == 1
    assert document["goodput"]["flows_gbps"]["flows"]["max"] == 80.0  # the greedy one, to the end of the run
    assert document["tasks"]["greedy"] == 1
    assert document["partial"] is False


@pytest.mark.parametrize("stopped", ["wall", "memory", "interrupted"])
def test_a_stopped_run_says_so(stopped: str) -> None:
    work = workload(sends=[(0, 1, 10)])
    document = result(work=work, out=outcome(work, [-1], sim_ns=9, stopped=stopped)).document()
    assert document["partial"] is True
    assert document["stopped"] == stopped
    assert document["completion_us"]["all"] == {"count": 0}


def test_links_by_name() -> None:
    network = result().document()["network"]
    assert (network["links"], network["links_used"]) == (4, 2)
    assert network["deepest_queues"][0] == {"link": LINKS[2], "value": 8_192}
    assert [row["link"] for row in network["most_drops"]] == [LINKS[2]]
    assert network["utilisation"]["max"] == pytest.approx(1_000 * 8 / 2_010, abs=1e-5)  # at 1 Gb/s


def test_ev_timeline() -> None:
    work = workload(sends=[(0, 1, 10)])
    events = ev_events((5, 2, 1), (9, 1, 3))
    paths = result(work=work, out=outcome(work, [50], ev_events=events)).document()["paths"]
    assert paths["changes"] == 2
    assert paths["by_state_and_reason"] == {"ASSUMED_BAD: loss": 1, "GOOD: probe": 1}
    assert paths["by_plane"] == {"1": 2}
    assert (paths["first_ns"], paths["last_ns"]) == (5, 9)
    assert paths["first"][0]["tag"] == 17


def test_steps() -> None:
    work = workload(sends=[(0, 1, 1)] * 4, steps=[("a", [0, 1]), ("b", [2]), ("c", [3])])
    steps = result(work=work, out=outcome(work, [90, 100, 250, -1])).document()["steps"]
    # Ends count the acknowledgement, 10 ns later; the third step is not complete.
    assert (steps["total"], steps["complete"], steps["end_ns"]) == (3, 2, [110, 260])
    assert steps["length_us"]["max"] == 0.15


def test_collectives() -> None:
    work = workload(sends=[(0, 1, 1)] * 3)
    work.collectives = [Collective("all_reduce", 4, 1_000, 0, 2), Collective("all_gather", 4, 1_000, 2, 3)]
    got = result(work=work, out=outcome(work, [90, 190, -1])).document()["collectives"]
    assert (got["total"], got["complete"]) == (2, 1)
    # 1,000 bytes in 200 ns are 40 Gb/s; of an all-reduce among four each NIC carries 1.5 times the buffer.
    assert (got["first"][0]["algbw_gbps"], got["first"][0]["busbw_gbps"]) == (40.0, 60.0)
    assert got["busbw_gbps"]["all_reduce"]["count"] == 1


def test_series_has_the_names_of_what_was_watched() -> None:
    series = sampled().document()["series"]
    assert series["time_ns"] == [100, 200, 300]
    assert series["flow_bytes"] == {"flow 0 (h0-h1)": [1_000, 500, 1_500]}
    assert series["link_bytes"] == {LINKS[0]: [7, 9, 11], LINKS[1]: [8, 10, 12]}
    assert series["drops"] == {"all": [0, 2, 0]}


def test_the_document_is_json_and_the_same_each_time() -> None:
    first, second = (to_json(sampled().document(timing=False)) for _ in range(2))
    assert first == second
    assert "timing" not in json.loads(first)
    assert json.loads(to_json(sampled().document()))["timing"]["wall_s"] == 0.5


def test_many_names_are_those_of_the_fabric() -> None:
    fabric = build(Clos(hosts=8, planes=2, hosts_per_t0=2, tiers=3, pods=2, t1_per_pod=2, t2_per_plane=4))
    ports = np.arange(2 * fabric.links)
    assert port_names(fabric, ports).to_pylist() == [fabric.port_name(i) for i in ports.tolist()]
    assert port_names(FABRIC, ports[:0]).to_pylist() == []


def test_no_number_is_lost_in_json() -> None:
    text = to_json({"a": np.int64(1 << 61), "b": float("nan"), "c": np.float32(0.5), "d": (np.bool_(True),)})
    assert json.loads(text) == {"a": 1 << 61, "b": None, "c": 0.5, "d": [True]}


def test_files_are_written_and_read_back(tmp_path: Path) -> None:
    files = save(sampled(), tmp_path / "new" / "run", timing=False)
    assert sorted(f.name for f in files) == [
        "ev_events.parquet",
        "links.parquet",
        "result.json",
        "series.parquet",
        "tasks.parquet",
    ]
    assert load(tmp_path / "new" / "run")["name"] == "two"
    assert load(files[-1]) == load(tmp_path / "new" / "run")
    tasks = pq.read_table(tmp_path / "new" / "run" / "tasks.parquet").to_pylist()
    assert tasks[0]["bytes"] == 3_000
    assert tasks[0]["group"] == "flows"
    assert tasks[0]["kind"] == "send"
    series = pq.read_table(tmp_path / "new" / "run" / "series.parquet").to_pylist()
    assert {"time_ns": 200, "quantity": "link_bytes", "of": LINKS[1], "value": 10} in series
    assert pq.read_table(tmp_path / "new" / "run" / "links.parquet").column("link").to_pylist() == [
        LINKS[0],
        LINKS[2],
    ]


def test_equal_results_have_equal_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        save(sampled(), tmp_path / name, timing=False)
    for file in (tmp_path / "a").iterdir():
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes(), file.name


def test_a_folder_is_tried_before_the_run(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(UsageError, match="is a file"):
        prepare(file)
    with pytest.raises(UsageError, match="cannot write results"):
        prepare(file / "below")
    assert list(prepare(tmp_path / "good").iterdir()) == []


def test_a_read_only_folder_is_refused() -> None:
    # Nobody, root included, makes folders there.
    with pytest.raises(UsageError, match=r"cannot write results to /proc/results: .*; name another folder"):
        prepare("/proc/results")


def test_what_cannot_be_read_back_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        load(tmp_path)
    file = tmp_path / "result.json"
    file.write_text("{\n oops")
    with pytest.raises(UsageError, match=r"result\.json:2: no JSON"):
        load(tmp_path)
    file.write_text('{"format": "other"}')
    with pytest.raises(UsageError, match="no result of this version"):
        load(file)
