"""Compares what stands in the kernel with the plan, and puts back what is missing.

Only what is missing counts: what programs, faults or users added is theirs. Links that are down are told apart from
things that are missing; the routes over them are both.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from softmrc.errors import MrcError
from softmrc.lab.seen import Seen, wanted
from softmrc.netns.enter import names

if TYPE_CHECKING:
    from softmrc.lab.lab import Lab

__all__ = ["Down", "Found", "Missing", "repair", "verify"]


@dataclass(frozen=True)
class Missing:
    """One thing that ought to be in a node and is not: `what` is the plan's own object, `words` say it."""

    node: str
    kind: str
    what: Any

    @property
    def words(self) -> str:
        """The node and the thing, for people."""
        what, kind = self.what, self.kind
        if kind == "sid":
            text = (
                f"SID {what.dst} ({what.action})"
                if what.action != "encap"
                else f"encapsulation to {what.dst}"
            )
        elif kind == "route":
            text = f"route to {what.dst} over {', '.join(h.dev for h in what.hops)}"
        elif kind == "neighbour":
            text = f"neighbour {what.via} on {what.dev}"
        elif kind == "address":
            text = f"address {what[1]} on {what[0]}"
        elif kind == "local":
            text = f"local prefix {what[0]}"
        else:
            text = f"{kind} {what}"
        return f"{self.node}: {text}"


@dataclass(frozen=True)
class Down:
    """An end of a link that passes nothing."""

    link: str
    node: str
    dev: str
    state: str

    @property
    def words(self) -> str:
        """The link and which end of it."""
        return f"{self.link} ({self.dev} of {self.node}: {self.state})"


@dataclass
class Found:
    """What a comparison found."""

    missing: list[Missing] = field(default_factory=list)
    down: list[Down] = field(default_factory=list)

    @property
    def whole(self) -> bool:
        """Whether everything is there and every link up."""
        return not self.missing and not self.down


def verify(lab: Lab, nodes: Iterable[str] | None = None) -> Found:
    """Compare nodes with the plan.

    Args:
        lab: the lab.
        nodes: which; None: all.

    Raises:
        UsageError: no such node.
        MrcError: the system refused to tell.
    """
    found = Found()
    there = set(names(f"{lab.name}-"))
    for name in lab.nodes if nodes is None else nodes:
        if lab.namespace(name) in there:
            _compare(lab, name, found)
        else:
            found.missing.append(Missing(name, "namespace", lab.namespace(name)))
    return found


def _compare(lab: Lab, name: str, found: Found) -> None:
    seen = Seen(lab.netlinks, lab.namespace(name))
    for link in lab.plan.at[name]:
        dev = link.a_dev if link.a_node == name else link.b_dev
        set_up, state = seen.devices.get(dev, (False, ""))
        if not state:
            found.missing.append(Missing(name, "link", link.name))
        elif state != "UP":
            found.down.append(Down(link.name, name, dev, "no carrier" if set_up else "set down"))
    found.missing += [
        Missing(name, kind, what) for kind, what in wanted(lab.plan.nodes[name]) if not seen.has(kind, what)
    ]


def repair(lab: Lab, nodes: Iterable[str] | None = None) -> tuple[Found, Found]:
    """Put back what is missing; returns what was found before and after.

    Links are not set up, and namespaces and links that are gone stay gone: make the lab anew for those.

    Raises:
        UsageError: no such node.
        MrcError: the system refused to tell.
    """
    chosen = None if nodes is None else list(nodes)
    before = verify(lab, chosen)
    for item in before.missing:
        _put_back(lab, item)
    return before, verify(lab, chosen) if before.missing else before


def _put_back(lab: Lab, item: Missing) -> None:
    maker, node, what = lab.maker, item.node, item.what
    try:
        if item.kind == "sysctl":
            maker.settings(lab.plan.nodes[node])
        elif item.kind == "address":
            maker.address(node, *what)
        elif item.kind == "neighbour":
            maker.neighbour(node, what)
        elif item.kind == "route":
            maker.route(node, what)
        elif item.kind == "local":
            maker.local(node, *what)
        elif item.kind == "sid":
            maker.sids(node, [what])
    except MrcError:
        return  # its device is down or gone: it stays in the list of what is missing
