"""What a lab may be, and labs from files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from softmrc.errors import UsageError
from softmrc.lab.file import read_spec
from softmrc.lab.spec import LabSpec


def test_the_default_is_the_reference_lab() -> None:
    spec = LabSpec()
    assert (spec.planes, spec.t0, spec.t1, spec.hosts, spec.rate_bps) == (4, 2, 4, 8, 200_000_000)
    assert (spec.shape.hosts_per_t0, spec.shape.t1_per_plane, spec.shape.tiers) == (4, 4, 2)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"name": "a-b"}, "name = 'a-b'"),
        ({"name": "x" * 17}, "16 at most"),
        ({"planes": 0}, "planes = 0: must be 1 to 31"),
        ({"hosts": 9, "t0": 4}, "need 3 T0s, not 4"),
        ({"t0": 2, "t1": 0}, "no T1"),
        ({"t2": 3, "pods": 1}, "T2s over the T1s"),
        ({"t2": 4, "pods": 3}, "split evenly over 3 pods"),
        ({"pods": 2}, "two tiers have none"),
        ({"mtu": 1000}, "mtu = 1000"),
        ({"rate_bps": 5}, "10 kbit/s"),
        ({"plain": "magic"}, "single, ecmp"),
        ({"switch": "asic"}, "auto, kernel, soft"),
        ({"paths": "flow"}, 'needs plain = "ecmp"'),
        ({"hosts": 4096, "t0": 1024, "planes": 8}, "namespaces: at most"),
    ],
)
def test_what_cannot_be_is_refused_by_field(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        LabSpec(**fields)


@pytest.mark.parametrize(
    "spec",
    [
        LabSpec(name="x", hosts=9, t0=3, rate_bps=None, trimming=False),
        LabSpec(t0=4, t1=4, t2=4, pods=2, plain="ecmp"),
        LabSpec(hosts=2, planes=1, links=(("h0", "p1.t0-0"), ("h1", "p1.t0-0"))),
    ],
)
def test_a_spec_survives_its_file(spec: LabSpec) -> None:
    assert LabSpec.from_json(spec.to_json()) == spec
    with pytest.raises(UsageError, match="no colour"):
        LabSpec.from_json({**spec.to_json(), "colour": 1})


def written(folder: Path, text: str, name: str = "lab.toml") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def test_the_simulators_fabric_table(tmp_path: Path) -> None:
    text = """
        about = "a scenario"
        [fabric]
        hosts = 8
        planes = 2
        hosts_per_t0 = 4
        t1_per_plane = 3
        host_gbps = 1.0
        t0_t1_gbps = 0.5
        host_link_ns = 100
        [lab]
        mtu = 1500
        trimming = false
        [workload]
        kind = "permutation"
    """
    spec = read_spec(written(tmp_path, text), name="f", plain="ecmp")
    expected = LabSpec(
        name="f", hosts=8, planes=2, t0=2, t1=3, hosts_per_t0=4, rate_bps=10**9, fabric_rate_bps=5 * 10**8, mtu=1500,
        trimming=False, plain="ecmp",
    )  # fmt: skip
    assert spec == expected


def test_rates_beyond_any_machine_keep_their_proportion(tmp_path: Path) -> None:
    text = "[fabric]\nhosts = 4\nplanes = 1\nhosts_per_t0 = 2\nt1_per_plane = 2\nhost_gbps = 400\nt0_t1_gbps = 200\n"
    spec = read_spec(written(tmp_path, text))
    assert (spec.rate_bps, spec.fabric_rate_bps) == (200_000_000, 100_000_000)
    spec = read_spec(written(tmp_path, text + "[lab]\nrate_mbps = 500\n"))
    assert spec.rate_bps == 500_000_000


def test_three_tiers_and_fabrics_made_by_hand(tmp_path: Path) -> None:
    text = "[fabric]\nhosts = 4\nplanes = 1\nhosts_per_t0 = 1\ntiers = 3\npods = 2\nt1_per_pod = 2\nt2_per_plane = 4\n"
    spec = read_spec(written(tmp_path, text))
    assert (spec.t0, spec.t1, spec.t2, spec.pods) == (4, 4, 4, 2)
    graph = "hosts = 2\nplanes = 1\n[[switch]]\ntier = 0\n" + "".join(
        f'[[link]]\nlow = "h{h}"\nhigh = "p1.t0-0"\ngbps = 0.1\n' for h in range(2)
    )
    file = written(tmp_path, graph, "graph.toml")
    links = (("h0", "p1.t0-0"), ("h1", "p1.t0-0"))
    assert read_spec(file).links == links
    other = read_spec(written(tmp_path, '[fabric]\nfile = "graph.toml"\n'))
    assert (other.links, other.rate_bps) == (links, 100_000_000)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hosts = ", "Invalid value"),
        ("[other]\n", r"no \[fabric\] table"),
        ("[fabric]\nplanes = 2\n", "hosts is missing"),
        ("[fabric]\nhosts = 2\ncolour = 3\n", "no colour"),
        ("[fabric]\nhosts = 2\nhosts_per_t0 = 2\n[lab]\nplanes = 3\n", r"\[lab\] has no planes"),
        ('[[link]]\nlow = "h0"\n', "'high' is missing"),
        ("[fabric]\nhosts = 2\nhosts_per_t0 = 2\nplanes = 99\n", "planes = 99"),
    ],
)
def test_wrong_files_are_refused_by_name_and_key(tmp_path: Path, text: str, words: str) -> None:
    file = written(tmp_path, text)
    with pytest.raises(UsageError, match=words) as caught:
        read_spec(file)
    assert str(file) in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        read_spec(tmp_path / "none.toml")
