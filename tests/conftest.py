"""Shared settings of the Python tests: hypothesis profiles, and skips that CI does not accept."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A busy machine is no fault of a test.
_PATIENT = [HealthCheck.too_slow]
settings.register_profile(
    "fast", max_examples=50, deadline=None, derandomize=True, suppress_health_check=_PATIENT
)
settings.register_profile(
    "slow", max_examples=2000, deadline=None, suppress_health_check=_PATIENT, print_blob=True
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))

_ALLOWED_SKIPS = Path(__file__).parent / "allowed_skips.txt"
_unexpected: list[str] = []


def _allowed() -> list[str]:
    lines = (line.strip() for line in _ALLOWED_SKIPS.read_text().splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _in_ci() -> bool:
    return os.environ.get("CI", "") == "true"


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Remembers skips whose reason names no feature that a host may lack."""
    if not report.skipped or hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    if not any(fragment in reason for fragment in _allowed()):
        _unexpected.append(f"{report.nodeid}: {reason}")


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """The same for whole modules that skip themselves."""
    if report.skipped:
        _unexpected.append(f"{report.nodeid}: skipped at import")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fails a CI run that skipped a test for an unknown reason."""
    if _in_ci() and _unexpected and session.exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Lists the skips that CI does not accept, ahead of pytest's closing line."""
    if _in_ci() and _unexpected:
        terminalreporter.section("unexpected skips (see tests/allowed_skips.txt)")
        for line in _unexpected:
            terminalreporter.write_line(line)
