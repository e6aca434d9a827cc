"""The fabric in the terminal: for each plane a table of its switches, each cell a link with its load and state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from softmrc.lab.look import DOWN, HURT, LinkLoad
from softmrc.lab.names import parse_node

__all__ = ["draw_text"]

_BARS = "▁▂▃▄▅▆▇█"
_IDLE = 0.001
_LEGEND = "up and down of each link: ▁ idle to █ full   ✗ down   ~ hurt (loss, rate, one direction)"


def draw_text(loads: Sequence[LinkLoad], title: str) -> RenderableType:
    """Return the picture of a lab.

    Args:
        loads: of all links.
        title: above it.
    """
    parts: list[RenderableType] = [Text(title, style="bold")]
    for plane in sorted({load.link.plane for load in loads}):
        parts.append(_plane(plane, [load for load in loads if load.link.plane == plane]))
    parts += [Text(line, style="yellow") for line in _faults(loads)]
    parts.append(Text(_LEGEND, style="dim"))
    return Group(*parts)


def _plane(plane: int, loads: Sequence[LinkLoad]) -> RenderableType:
    fabric = {(load.link.a_node, load.link.b_node): load for load in loads if load.link.kind == "fabric"}
    hosts: dict[str, list[LinkLoad]] = {}
    for load in loads:
        if load.link.kind == "host":
            hosts.setdefault(load.link.b_node, []).append(load)
    table = Table(box=None, pad_edge=False, title=None)
    table.add_column(f"plane {plane}", no_wrap=True)
    upper = sorted({high for _, high in fabric}, key=_order)
    for high in upper:
        table.add_column(_short(high), no_wrap=True)
    table.add_column("hosts")
    for low in sorted({n for n, _ in fabric} | set(hosts), key=_order):
        cells = [_cell(fabric.get((low, high))) for high in upper]
        table.add_row(_short(low), *cells, _host_cells(hosts.get(low, [])))
    busy = sum(load.up_bps for load in loads if load.link.kind == "host")
    return Group(Text(""), table, Text(f"{'':8}sent by hosts {busy / 1e6:,.0f} Mbit/s", style="dim"))


def _host_cells(loads: Sequence[LinkLoad]) -> Text:
    text = Text()
    for load in loads:
        text.append(f"{load.link.a_node} ")
        text.append_text(_cell(load))
        text.append("  ")
    return text


def _cell(load: LinkLoad | None) -> Text:
    if load is None:
        return Text("")
    if load.state == DOWN:
        return Text("✗✗", style="bold red")
    text = Text()
    for bps in (load.up_bps, load.down_bps):
        share = bps / load.rate_bps if load.rate_bps else min(bps / 1e9, 1.0)
        text.append(_BARS[min(int(share * len(_BARS)), len(_BARS) - 1)], style=_style(share))
    if load.state == HURT:
        text.append("~", style="bold yellow")
    return text


def _style(share: float) -> str:
    if share < _IDLE:
        return "bright_black"
    return "cyan" if share < 0.5 else "blue" if share < 0.9 else "magenta"


def _faults(loads: Sequence[LinkLoad]) -> list[str]:
    words: Mapping[str, list[str]] = {}
    found: dict[str, list[str]] = dict(words)
    for load in loads:
        if load.state != "up":
            found.setdefault(load.why or load.state, []).append(load.link.name)
    return [f"{why}: {_some(names)}" for why, names in found.items()]


def _some(names: Sequence[str], most: int = 6) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _short(node: str) -> str:
    return parse_node(node).short


def _order(node: str) -> tuple[str, int]:
    found = parse_node(node)
    return found.kind, found.index
