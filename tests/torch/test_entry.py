"""The entry point: what every `import torch` of every program pays for this package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

# Torch has all these modules itself by the time it asks.
_COST = """
import sys, time, json, types, typing, importlib.metadata
sys.modules["torch"] = types.ModuleType("torch")
c10d = types.ModuleType("torch.distributed.distributed_c10d")
sys.modules["torch.distributed.distributed_c10d"] = c10d
calls = []
class Backend:
    _plugins = {}
    @classmethod
    def register_backend(cls, name, function, extended_api=False, devices=None):
        calls.append((name, extended_api, devices))
c10d.Backend = Backend
before = set(sys.modules)
start = time.process_time()
from softmrc.torch_backend.entry import load
load()
cost = time.process_time() - start
print(json.dumps({"cost": cost, "calls": calls, "modules": sorted(set(sys.modules) - before)}))
"""


def _python(code: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", "-c", code],
        env=os.environ | env,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


def test_the_entry_point_is_declared() -> None:
    found = [point for point in entry_points(group="torch.backends") if point.name == "mrc"]
    assert found, "install the package: make env"
    assert found[0].value == "softmrc.torch_backend.entry:load"


def test_it_costs_less_than_a_millisecond_and_imports_nothing() -> None:
    cost = 1.0
    # A busy machine spoils some of the tries.
    for _ in range(20):
        run = json.loads(_python(_COST).stdout)
        assert run["calls"] == [["mrc", True, ["cpu", "cuda"]]]
        assert set(run["modules"]) <= {"softmrc", "softmrc.torch_backend", "softmrc.torch_backend.entry"}
        cost = min(cost, run["cost"])
        if cost < 1e-3:
            break
    assert cost < 1e-3


@pytest.mark.parametrize(
    "torch_lacks",
    [
        "pass",
        "c10d.Backend = None",
        "del c10d.Backend.register_backend",
        "c10d.Backend.register_backend = lambda *a, **k: 1 / 0",
    ],
)
def test_it_never_raises(torch_lacks: str) -> None:
    stub = _COST.split("before =")[0]
    done = _python(
        f"{stub}\n{torch_lacks}\nfrom softmrc.torch_backend.entry import load\nload()\nprint('fine')"
    )
    assert done.stdout == "fine\n", done.stderr
    done = _python("from softmrc.torch_backend.entry import load\nload()\nprint('fine')")
    assert done.stdout == "fine\n", done.stderr


def test_torch_knows_the_backend_without_an_import_of_ours() -> None:
    done = _python(
        "import sys, torch.distributed as dist\n"
        "print(dist.is_backend_available('mrc'), dist.get_default_backend_for_device('cpu'))\n"
        "print([name for name in sys.modules if name.startswith('softmrc') and 'torch_backend' not in name])"
    )
    assert done.stdout == "True gloo\n['softmrc']\n", done.stderr


def test_where_autoload_is_off_an_import_registers_it() -> None:
    done = _python(
        "import torch.distributed as dist\nprint(dist.is_backend_available('mrc'))\n"
        "import softmrc.torch\nprint(dist.is_backend_available('mrc'))",
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
    )
    assert done.stdout == "False\nTrue\n", done.stderr


def test_without_a_process_group_the_report_says_what_to_do() -> None:
    done = _python("import softmrc.torch\nsoftmrc.torch.report()")
    assert 'call init_process_group("mrc") first' in done.stderr


def test_field_b57_nothing_of_ours_is_linked_against_torch() -> None:
    """B57: an extension built for one torch will not import in another. Ours knows no torch at all."""
    import softmrc

    directory = Path(softmrc.__file__).parent
    for library in directory.glob("*.so"):
        content = library.read_bytes()
        for name in (b"libtorch", b"libc10", b"c10d", b"at6Tensor"):
            assert name not in content, library


def test_without_torch_the_face_says_how_to_get_it() -> None:
    done = _python("import sys\nsys.modules['torch'] = None\nimport softmrc.torch")
    assert "needs torch (pip install 'softmrc[torch]')" in done.stderr
