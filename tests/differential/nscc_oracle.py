"""NSCC as reference section 7 states it, line by line, in plain Python: easy to compare with the text.

Sizes are bytes, times ns. Shares nothing with the engine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

Event = dict[str, Any]


@dataclass
class Link:
    """The environment of 7.1."""

    bytes_per_second: int
    base_rtt_ns: int
    mtu: int
    trimming: bool


@dataclass
class Parameters:
    """Table 7.1: a setting of 0 (or an absent one) takes the default in the text."""

    config: dict[str, Any]
    link: Link

    def __post_init__(self) -> None:
        config, link = self.config, self.link
        self.mtu = link.mtu
        self.cfg_rtt = config.get("base_rtt_ns") or link.base_rtt_ns
        bdp = link.bytes_per_second * self.cfg_rtt / 1e9
        self.a = bdp / 150_000
        self.t = config.get("target_delay_ns") or math.floor(self.cfg_rtt * (0.75 if link.trimming else 1.0))
        self.b = self.t / 12_000
        self.alpha = 4 * self.a * self.b * self.mtu / self.t
        self.fi = config.get("fi") or 5 * self.mtu * self.a
        self.fi_scale = config.get("fi_scale") or 0.25 * self.a
        self.eta = config.get("eta") or 0.15 * self.mtu * self.a
        self.gamma = config.get("gamma") or 0.8
        self.max_md_jump = config.get("max_md_jump") or 0.5
        self.qa_gate = config.get("qa_gate") or 3
        self.qa_threshold = config.get("qa_threshold_ns") or (math.inf if link.trimming else 4 * self.t)
        self.adjust_bytes = config.get("adjust_bytes_threshold") or 8 * self.mtu
        self.adjust_period = config.get("adjust_period_threshold_ns") or self.cfg_rtt
        self.disable_qa = bool(config.get("disable_qa", False))
        # Section 16, software note, and the floor of 7.4.
        self.clear_delay = max(1_000, math.floor(self.cfg_rtt * config.get("clear_delay_fraction", 0.0)))
        self.floor_rtt = config.get("min_base_rtt_ns") or 1_000

    def max_wnd(self, base_rtt: int) -> float:
        """1.5 x C x base_rtt, capped by max_cwnd (D-36); a window below one packet would send nothing."""
        window = 1.5 * self.link.bytes_per_second * base_rtt / 1e9
        cap = self.config.get("max_cwnd") or math.inf
        return float(max(min(window, cap), self.mtu))


@dataclass
class Nscc:
    """State 7.2 and the events of 7.5."""

    config: dict[str, Any]
    link: Link
    inflight: int = 0
    saved_cwnd: float = 0.0
    achieved: int = 0
    received: int = 0
    fi_count: int = 0
    trigger_qa: bool = False
    qa_end: int | None = None
    to_ignore: int = 0
    ignored: int = 0
    inc: float = 0.0
    last_adjust: int = 0
    increase: bool = False
    last_dec: int = 0
    avg_delay: float = 0.0
    last_sample: int = 0
    measured: float = math.inf
    p: Parameters = field(init=False)

    def __post_init__(self) -> None:
        self.p = Parameters(self.config, self.link)
        self.base_rtt: int = self.p.cfg_rtt
        self.max_wnd = self.p.max_wnd(self.base_rtt)
        self.cwnd = self.max_wnd

    # --- the events ---

    def feed(self, event: Event) -> tuple[int, int, int]:
        """Apply one event and return (cwnd, inflight, max_wnd) in whole bytes."""
        arguments = {k: v for k, v in event.items() if k != "event"}
        getattr(self, "on_" + event["event"])(**arguments)
        return int(self.cwnd), self.inflight, int(self.max_wnd)

    def on_send(self, now_ns: int, nominal: int) -> None:
        self.inflight += nominal

    def on_ack(
        self, now_ns: int, newly: int, ecn: bool, rtt_ns: int | None, pen: int = 0, restore: bool = False
    ) -> None:
        p = self.p
        # 1
        self.inflight -= newly
        self.ignored += newly
        self.received += newly
        self.achieved += newly
        # 2
        limited = False
        if pen > 0:
            if self.saved_cwnd == 0:
                self.saved_cwnd = self.cwnd
            self.cwnd = min(self.cwnd, self.inflight)
            self.cwnd = max(p.mtu, self.cwnd - (pen * newly >> 7))
            limited = True
        elif restore and self.saved_cwnd > 0:
            self.cwnd = min(self.saved_cwnd, self.max_wnd)
            self.saved_cwnd = 0
        # 3
        if rtt_ns is None:
            return
        self.update_base_rtt(rtt_ns)
        delay = max(rtt_ns - self.base_rtt, 0)
        self.update_average(now_ns, delay)
        # 4
        if self.quick_adapt(now_ns, loss=False, ecn=ecn, delay=delay):
            return
        # 5
        match (ecn, delay >= p.t):
            case (False, True) if not limited:
                self.inc += p.fi * newly
            case (False, False) if not limited:
                if not self.fast_increase(newly, delay):
                    self.inc += p.alpha * newly * (p.t - delay)
            case (True, True):
                self.decrease(now_ns)
        # 6
        over = now_ns - self.last_adjust >= p.adjust_period
        if over or self.received > p.adjust_bytes:
            self.cwnd += self.inc / self.cwnd
            if over:
                self.last_adjust = now_ns
                self.cwnd += p.eta
            self.cwnd = min(self.cwnd, self.max_wnd)
            self.inc = 0.0
            self.received = 0

    def on_nack(self, now_ns: int, nominal: int, kind: str, rtt_ns: int | None) -> None:
        self.inflight -= nominal
        if rtt_ns is not None:
            self.update_base_rtt(rtt_ns)
        if nominal == 0 or kind not in ("trimmed", "trimmed_lasthop"):
            return  # 0: this transmission left inflight before, and a late NACK changes nothing (7.3)
        self.update_average(now_ns, self.p.cfg_rtt)
        self.ignored += nominal
        self.trigger_qa = True
        if not self.quick_adapt(now_ns, loss=True, ecn=True, delay=0):
            self.cwnd = max(self.cwnd - nominal, self.p.mtu)

    def on_loss(self, now_ns: int, nominal: int, timeout: bool) -> None:
        self.cwnd = max(self.cwnd - nominal, self.p.mtu)
        self.ignored += nominal
        self.inflight -= nominal

    def on_outstanding(self, bytes: int) -> None:
        self.inflight = 0 if bytes == 0 else min(self.inflight, bytes)

    def on_link(self, now_ns: int, link: dict[str, Any]) -> None:
        """C and the configured base RTT are those of the usable planes: all of 7.1 follows them."""
        self.link = Link(**link)
        self.p = Parameters(self.config, self.link)
        self.base_rtt = int(min(self.p.cfg_rtt, self.measured))
        self.max_wnd = self.p.max_wnd(self.base_rtt)
        self.cwnd = min(max(self.cwnd, self.p.mtu), self.max_wnd)

    # --- the steps ---

    def update_base_rtt(self, rtt: int) -> None:
        self.measured = min(self.measured, max(rtt, self.p.floor_rtt))
        if self.measured < self.base_rtt:
            self.base_rtt = int(self.measured)
            self.max_wnd = self.p.max_wnd(self.base_rtt)
            self.cwnd = min(self.cwnd, self.max_wnd)

    def update_average(self, now: int, delay: int) -> None:
        w = self.config.get("avg_weight") or min(1.0, (now - self.last_sample) / self.base_rtt)
        self.avg_delay += w * (delay - self.avg_delay)
        self.last_sample = now

    def fast_increase(self, newly: int, delay: int) -> bool:
        if delay < self.p.clear_delay:
            self.fi_count += newly
            if self.fi_count > self.cwnd or self.increase:
                self.cwnd = min(self.cwnd + newly * self.p.fi_scale, self.max_wnd)
                self.increase = True
                return True
        else:
            self.fi_count = 0
        self.increase = False
        return False

    def decrease(self, now: int) -> None:
        p = self.p
        self.increase = False
        self.fi_count = 0
        average = int(self.avg_delay)  # delays are compared in whole ns
        if average > p.t and now - self.last_dec > self.base_rtt:
            factor = max(1 - p.gamma * (average - p.t) / average, p.max_md_jump)
            self.cwnd = max(p.mtu, self.cwnd * factor)
            self.last_dec = now

    def quick_adapt(self, now: int, *, loss: bool, ecn: bool, delay: int) -> bool:
        p = self.p
        if p.disable_qa:
            return False
        handled = False
        if self.ignored < self.to_ignore and ecn:
            handled = True
        elif self.qa_end is None or now >= self.qa_end:
            if (
                self.qa_end is not None
                and (self.trigger_qa or loss or delay > p.qa_threshold)
                and self.achieved < int(self.max_wnd) >> p.qa_gate
            ):
                self.cwnd = max(self.achieved, p.mtu)
                self.to_ignore = self.inflight
                self.ignored = 0
                self.trigger_qa = False
                handled = True
            self.achieved = 0
            self.qa_end = now + self.base_rtt + p.t
        if handled:
            self.inc = 0.0
            self.received = 0
        return handled
