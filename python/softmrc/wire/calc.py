"""Arithmetic of acknowledgements and NSCC as formulas of reference 2.10, 5.7, 7.1, 7.4 and 7.5."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from softmrc.errors import WireError

__all__ = ["calculate", "nominal_size"]

Fields = Mapping[str, Any]
_COUNTER = 1 << 24


def nominal_size(udp_length: int) -> int:
    """Size of a packet for congestion accounting (7.3, D-09)."""
    return udp_length + 40


def _rcvd_field(f: Fields) -> dict[str, Any]:
    return {"rcvd_bytes_field": -(-f["accumulated_nominal_bytes"] // 256) % _COUNTER}


def _newly(f: Fields) -> dict[str, Any]:
    units = (f["cur"] - f["prev"]) % _COUNTER
    return {"newly_rcvd_bytes": units * 256 if units < _COUNTER // 2 else 0}


def _rtt(f: Fields) -> dict[str, Any]:
    return {"rtt_ns": (f["now_ticks"] - f["echoed"]) % (1 << 16) * 128}


def _ack_timeout(f: Fields) -> dict[str, Any]:
    linear, exp = f["linear_cnt"], f["exp_cnt"]
    ceiling = 24  # no wait is longer than 1.024 us x 2^24
    powers = [f["timeout"]] * (1 + linear) + [min(f["timeout"] + i, ceiling) for i in range(1, exp + 1)]
    forever = exp == 25
    return {
        "wait_us_per_transmission": [1.024 * 2**p for p in powers],
        "error_on_timeout_number": None if forever else 1 + linear + exp,
    }


def _nscc_params(f: Fields) -> dict[str, Any]:
    rtt, mtu, rate = f["config_base_rtt_ns"], f["mtu"], f["link_bytes_per_s"]
    bdp = rate * rtt / 1e9
    a = bdp / 150_000
    target = rtt * (0.75 if f["trimming"] else 1.0)
    b = target / 12_000
    return {
        "bdp": bdp,
        "scaling_a": a,
        "target_qdelay_ns": target,
        "scaling_b": b,
        "alpha_bytes_per_us": 4 * a * b * mtu / (target / 1000),
        "fi": 5 * mtu * a,
        "fi_scale": a / 4,
        "eta": 0.15 * mtu * a,
        "max_wnd": 1.5 * bdp,
        "adjust_bytes": 8 * mtu,
        "adjust_period_ns": rtt,
        "qa_threshold": "infinite" if f["trimming"] else 4 * target,
    }


def _decrease(f: Fields) -> dict[str, Any]:
    cwnd, avg, target = f["cwnd"], f["avg_delay_ns"], f["target_qdelay_ns"]
    if avg <= target or f["since_last_dec_ns"] <= f["base_rtt_ns"]:
        return {"cwnd": cwnd}
    factor = 1 - f["gamma"] * (avg - target) / avg
    return {"cwnd": max(f["mtu"], cwnd * max(factor, f["max_md_jump"]))}


def _penalty(f: Fields) -> dict[str, Any]:
    pen, cwnd, saved = f["rcv_cwnd_pen"], f["cwnd"], f["saved_cwnd"]
    if pen == 0:
        return {"cwnd": cwnd, "saved_cwnd": saved, "increase_allowed": True}
    cut = min(cwnd, f["inflight_after_ack"]) - (pen * f["newly"] >> 7)
    return {"cwnd": max(f["mtu"], cut), "saved_cwnd": saved or cwnd, "increase_allowed": False}


def _fulfil(f: Fields) -> dict[str, Any]:
    gain = f.get("fi") or f["alpha_bytes_per_us"] * (f["target_qdelay_ns"] - f["delay_ns"]) / 1000
    newly, cwnd = f["newly_total"], f["cwnd"]
    inc = gain * newly
    if newly <= f["adjust_bytes"] and not f["period_elapsed"]:
        return {"cwnd": cwnd, "inc": inc, "received": newly}
    return {"cwnd": min(cwnd + inc / cwnd, f["max_wnd"]), "inc": 0, "received": 0}


_FORMULAS: tuple[tuple[set[str], Callable[[Fields], dict[str, Any]]], ...] = (
    ({"accumulated_nominal_bytes"}, _rcvd_field),
    ({"prev", "cur"}, _newly),
    ({"now_ticks", "echoed"}, _rtt),
    ({"timeout", "linear_cnt", "exp_cnt"}, _ack_timeout),
    ({"link_bytes_per_s", "config_base_rtt_ns", "mtu", "trimming"}, _nscc_params),
    ({"avg_delay_ns", "gamma"}, _decrease),
    ({"rcv_cwnd_pen", "newly"}, _penalty),
    ({"newly_total", "fi"}, _fulfil),
    ({"newly_total", "alpha_bytes_per_us"}, _fulfil),
)


def calculate(fields: Fields) -> dict[str, Any]:
    """Apply the formula whose inputs `fields` holds.

    Raises:
        WireError: no formula takes these fields, or one of them is missing.
    """
    for needed, formula in _FORMULAS:
        if needed <= set(fields):
            try:
                return formula(fields)
            except (KeyError, TypeError) as e:
                raise WireError(f"CALC: bad or missing field: {e}") from None
    raise WireError("CALC: no formula takes these fields")
