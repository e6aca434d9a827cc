"""Training over "mrc" among hosts with several planes: DDP, FSDP2, checkpoints, torchrun, and planes that fail."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.torch.ranks import Place, Ranks

from softmrc.lab import Lab
from softmrc.lab.faults import fail, heal

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="needs torch (pip install 'softmrc[torch]')"
)

_ROOT = Path(__file__).parents[2]
_ELASTIC = _ROOT / "tests/torch/elastic_worker.py"


def _start(lab: Lab, host: str, *args: str) -> subprocess.Popen[str]:
    return lab.popen(
        host, sys.executable, *args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=_ROOT
    )


def _end(processes: list[subprocess.Popen[str]], seconds: float) -> list[str]:
    """Wait for all; return what they printed, or fail with what they complained of."""
    deadline = time.monotonic() + seconds
    try:
        ends = [process.communicate(timeout=deadline - time.monotonic()) for process in processes]
    finally:
        for process in processes:
            process.kill()
    for process, (_, err) in zip(processes, ends, strict=True):
        assert process.returncode == 0, err[-3000:]
    return [out for out, _ in ends]


@pytest.fixture
def ranks(lab: Lab, tmp_path: Path) -> Iterator[Ranks]:
    """One rank on each host of the lab."""
    places = [
        Place(
            lab.namespace(host),
            {"SOFTMRC_PLANES": ",".join(lab.addresses(host)), "SOFTMRC_FABRIC": str(lab.fabric_file)},
        )
        for host in lab.hosts
    ]
    made = Ranks(len(lab.hosts), tmp_path, places=places)
    yield made
    made.kill()


@pytest.mark.timeout(120)
def test_ddp_fsdp_and_checkpoints_over_all_planes(lab: Lab, ranks: Ranks, tmp_path: Path) -> None:
    from tests.torch import training_cases

    parameters = ranks.call(training_cases.ddp, False)
    assert all(each == parameters[0] for each in parameters)
    ranks.call(training_cases.fsdp)
    ranks.call(training_cases.hybrid)
    ranks.call(training_cases.checkpoint, str(tmp_path / "saved"))
    ranks.call(training_cases.functional)
    for planes, host in zip(ranks.call(_planes), lab.hosts, strict=True):
        assert sorted(planes) == sorted(lab.addresses(host))
    assert ranks.close() == [0] * 4


def _planes(rank: int, size: int) -> tuple[str, ...]:
    import softmrc.torch

    return softmrc.torch.report().planes


@pytest.mark.timeout(120)
def test_training_goes_on_while_planes_fail(lab: Lab, ranks: Ranks) -> None:
    """A plane down, a switch rebooted, loss, and all planes down: same bits as when nothing fails, no step lost."""
    from tests.torch import ride_cases

    quiet = ranks.call(ride_cases.steps, 40, 0.0)
    ranks.cast(ride_cases.steps, 40, 4.0)
    script = [("p1", 0.5, {}), ("p2.t1-1", 0.4, {}), ("p1.t0-0.t1-0", 0.4, {"loss": 0.05})]
    try:
        time.sleep(0.3)
        for target, seconds, what in script:
            fail(lab, target, **what)
            time.sleep(seconds)
            heal(lab, target)
            time.sleep(0.2)
        fail(lab, "p1")
        fail(lab, "p2")
        time.sleep(0.7)
        heal(lab)
        disturbed = ranks.results(timeout=60)
    finally:
        heal(lab)
    assert len({each["weights"] for each in quiet + disturbed}) == 1
    for each in disturbed:
        assert each["report"]["failed"] == ()
        assert each["report"]["incidents"]
    assert ranks.close() == [0] * 4


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_torchrun_restarts_while_a_plane_is_down(lab: Lab, tmp_path: Path) -> None:
    """Two hosts with one rank each; rank 1 is killed, both start again, a plane fails meanwhile."""
    address = lab.addresses("h0")[0]
    agents = [
        _start(
            lab,
            host,
            *("-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1", f"--node-rank={node}"),
            *("--rdzv-backend=c10d", f"--rdzv-endpoint={address}:29577", "--rdzv-id=restart"),
            f"--rdzv-conf=is_host={'false' if node else 'true'}",
            *(f"--local-addr={lab.addresses(host)[0]}", "--max-restarts=1", "--monitor-interval=0.1"),
            *(str(_ELASTIC), str(tmp_path), "killed"),
        )
        for node, host in enumerate(("h0", "h1"))
    ]
    try:
        fail(lab, "p2")
        _end(agents, 190)
    finally:
        heal(lab)
    assert (tmp_path / "result0").read_text() == (tmp_path / "result1").read_text()
    assert (tmp_path / "step6" / ".metadata").exists()
