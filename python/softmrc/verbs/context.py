"""The device: planes, sockets and the I/O thread; the root of every verbs object."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from softmrc._core import NetDriver
from softmrc.device import Device, EventQueue, Pump, Resource, Wakeup, device, refusals
from softmrc.errors import UsageError, VerbsError
from softmrc.verbs.enums import MrcCap
from softmrc.verbs.impair import Rule
from softmrc.verbs.structs import DeviceAttr, MrcDeviceAttr

__all__ = ["API_VERSION", "CompChannel", "Context", "query_version"]

# major << 24 | minor << 16 | sub (reference 11)
API_VERSION = 1 << 24 | 1
_OLDEST_API = 1 << 24


def query_version() -> tuple[int, int, int, int]:
    """Return current and oldest API version, then those of this implementation's own extensions."""
    return API_VERSION, _OLDEST_API, API_VERSION, _OLDEST_API


class Context(Resource):
    """An open device. Its planes are opened here, because a user-space device has no other life."""

    def __init__(
        self,
        name: str = "mrc0",
        planes: Sequence[str | Mapping[str, Any]] = (),
        *,
        seed: int | None = None,
        strict: bool = False,
        evs_per_plane: int = 16,
        udp_port: int = 4791,
        **driver: Any,
    ) -> None:
        """Open sockets on every plane and start the I/O thread.

        Args:
            name: device name; contexts and controllers of one process with one name share profiles.
            planes: addresses, or mappings with `address`, `udp_port`, `evs`, `force_source_ports`,
                `bytes_per_second`.
            seed: of the engine (QPNs, PSNs, keys); None: from the operating system.
            strict: refuse verbs attributes that MRC has no use for with EINVAL, instead of ignoring them.
            evs_per_plane: entropy values of planes that do not say.
            udp_port: UDP port of planes that do not say; 0: the kernel picks.
            driver: `p_key`, `hop_limit`, `send_timestamps`, `accept_only_known_peers`, `rcvbuf`, `sndbuf`,
                `impair_seed`, `spin_us`, `batching`, `progress`, `cpus` (numbers; of the I/O thread).

        Raises:
            UsageError: no plane, or a wrong argument.
            VerbsError: a socket was refused; the text names the plane and what to do.
        """
        if not planes:
            raise UsageError(
                "a device needs at least one plane: pass addresses, for instance planes=['127.0.0.1']"
            )
        config: dict[str, Any] = {k: v for k, v in driver.items() if v is not None}
        config["seed"] = int.from_bytes(os.urandom(8), "little") if seed is None else seed
        config["planes"] = [self._plane(p, evs_per_plane, udp_port) for p in planes]
        self.name = name
        self.strict = strict
        self.device: Device = device(name)
        with refusals("open device"):
            self.driver = NetDriver(config)
        self.pump = Pump(self.driver)
        self._events = EventQueue(Wakeup(self.driver.event_fd()))
        self.pump.add_sink(self._events.push)
        self._open(None)
        self.device.attach(self)

    @staticmethod
    def _plane(plane: str | Mapping[str, Any], evs: int, udp_port: int) -> dict[str, Any]:
        given = {"address": plane} if isinstance(plane, str) else dict(plane)
        return {"evs": evs, "udp_port": udp_port, **{k: v for k, v in given.items() if v is not None}}

    @property
    def planes(self) -> list[dict[str, Any]]:
        """The planes as opened: port, address, udp_port, up, flow_labels, mtu, rcvbuf, sndbuf, evs."""
        with refusals("query planes"):
            return list(self.driver.planes())

    def query_device(self) -> DeviceAttr:
        """Return the verbs attributes of the device."""
        return DeviceAttr(
            fw_ver="softmrc",
            vendor_id=0,
            max_qp=1 << 20,
            max_qp_wr=1 << 16,
            max_sge=1,
            max_cq=1 << 16,
            max_cqe=1 << 22,
            max_mr=1 << 20,
            max_mr_size=1 << 63,
            max_pd=1 << 20,
            max_msg_sz=1 << 31,
            phys_port_cnt=1,
        )

    def query_mrc_device(self) -> MrcDeviceAttr:
        """Return the MRC attributes of the device.

        Service time is never corrected (D-18), so its bit is off.
        """
        return MrcDeviceAttr(
            protocol_versions=1,
            max_wimm=4096,
            max_wimm_dest=4096,
            max_mpr=32,
            mpr_resolution=1,
            max_qp_hint=1 << 16,
            caps=MrcCap.TRIM_NACK | MrcCap.DYNAMIC_MPR,
        )

    @property
    def async_fd(self) -> int:
        """Descriptor that is readable when an asynchronous event may wait."""
        return self._events.wakeup.fileno()

    def get_async_event(self, timeout: float | None = None) -> dict[str, Any] | None:
        """Wait for an event.

        `kind` is qp_error, ev_state, port_local, port_remote, port_moved, cq_overrun or endpoint_response.

        Args:
            timeout: seconds; 0: only look; None: as long as it takes.

        Returns:
            The event, or None when the time ran out.
        """
        self._require_open()
        with refusals("get async event"):
            if not self.pump.wait_for(self._events.wakeup, lambda: len(self._events) > 0, timeout):
                return None
        return self._events.pop()

    def set_port_up(self, plane: int, up: bool) -> None:
        """Administratively take a plane down or bring it back; peers are told."""
        with refusals(f"set plane {plane} {'up' if up else 'down'}"):
            self.driver.set_port_up(plane, up)

    def add_rules(self, rules: Iterable[Rule | Mapping[str, Any]]) -> list[int]:
        """Add built-in impairments; see `Rule`. Returns their numbers."""
        made = [rule if isinstance(rule, Rule) else _rule(rule) for rule in rules]
        with refusals("add rule"):
            return [self.driver.add_rule(rule.to_core()) for rule in made]

    def clear_rules(self) -> None:
        """Remove all impairments."""
        with refusals("clear rules"):
            self.driver.clear_rules()

    def stats(self) -> dict[str, Any]:
        """Return the counters of engine and driver."""
        with refusals("query statistics"):
            return dict(self.driver.stats())

    def _close_child(self, child: Resource) -> None:
        # Nothing outlives its device: what is still refused, because another thread uses it, goes with it.
        with contextlib.suppress(VerbsError):
            child.close()

    def _release(self) -> None:
        self.device.detach(self)
        self.driver.close()
        self._events.wakeup.close()


def _rule(members: Mapping[str, Any]) -> Rule:
    try:
        return Rule(**members)
    except TypeError as error:
        raise UsageError(f"rule: {error}") from None


class CompChannel(Resource):
    """Says when completion queues have something. `fd` fits select, poll and `loop.add_reader`."""

    _close_order = 3

    def __init__(self, ctx: Context) -> None:
        """Make a channel."""
        ctx._require_open()
        self.ctx = ctx
        self._wakeup = Wakeup(ctx.driver.event_fd())
        self._pending: list[Any] = []
        self._open(ctx)

    @property
    def fd(self) -> int:
        """Descriptor that is readable when a notification may wait; `get_cq_event(timeout=0)` tells."""
        return self._wakeup.fileno()

    def get_cq_event(self, expected_cq: Any = None, timeout: float | None = None) -> Any:
        """Wait for the next notification and return its CQ.

        Args:
            expected_cq: the CQ the caller thinks it is; another one is an error (as in pyverbs).
            timeout: seconds; 0: only look; None: as long as it takes.

        Returns:
            The CQ, or None when the time ran out.

        Raises:
            UsageError: the notification belongs to another CQ than expected.
        """
        self._require_open()
        with refusals("get CQ event"):
            if not self.ctx.pump.wait_for(self._wakeup, lambda: bool(self._pending), timeout):
                return None
        cq = self._pending.pop(0)
        if not self._pending:
            self._wakeup.clear()
        cq._delivered += 1
        if expected_cq is not None and cq is not expected_cq:
            raise UsageError("the event belongs to another CQ than expected")
        return cq

    def _on_notified(self, cq: Any) -> None:
        self._pending.append(cq)
        self._wakeup.set()

    def _drop(self, cq: Any) -> None:
        self._pending = [c for c in self._pending if c is not cq]

    def _release(self) -> None:
        self._wakeup.close()
