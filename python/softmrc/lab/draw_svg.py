"""The fabric as an SVG: a panel for each plane, T1s above T0s above hosts, links by their load and state.

Load is darkness and width, faults are red and dashed with a cross, so the picture can be read without colours. A click
or a hovering pointer on a link shows its figures (`<title>`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

from softmrc.lab.look import DOWN, HURT, LinkLoad
from softmrc.lab.names import Node, parse_node

__all__ = ["draw_svg"]

_NODE_W, _NODE_H, _GAP, _ROW = 58.0, 26.0, 14.0, 104.0
_PAD, _HEAD, _FOOT = 24.0, 64.0, 72.0
_TIERS = ("host", "t0", "t1", "t2")
_FILL = {"host": "#F4F1E8", "t0": "#E3ECF5", "t1": "#D3E0EE", "t2": "#C3D4E7"}
_IDLE, _LIGHT, _DARK = (0xC9, 0xCD, 0xD2), (0x8F, 0xBC, 0xE0), (0x0B, 0x3C, 0x7A)
_DOWN, _HURT = "#C62828", "#B26A00"
_FONT = "font-family='DejaVu Sans, Helvetica, Arial, sans-serif'"


def draw_svg(loads: Sequence[LinkLoad], title: str) -> str:
    """Return the picture of a lab.

    Args:
        loads: of all links.
        title: above it.
    """
    planes = sorted({load.link.plane for load in loads})
    panels = [_Panel(plane, [load for load in loads if load.link.plane == plane]) for plane in planes]
    columns = 1 if len(panels) == 1 else 2 if panels[0].width < 700 else 1
    rows = -(-len(panels) // columns)
    width = max(columns * panels[0].width + (columns + 1) * _PAD, 860)
    height = _HEAD + rows * (panels[0].height + _PAD) + _FOOT
    out = [
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width:.0f}' height='{height:.0f}' "
        f"viewBox='0 0 {width:.0f} {height:.0f}' {_FONT}>",
        f"<rect width='{width:.0f}' height='{height:.0f}' fill='#FFFFFF'/>",
        _text(_PAD, 34, title, 18, weight="bold"),
        _text(_PAD, 54, _summary(loads), 12, fill="#555555"),
    ]
    for place, panel in enumerate(panels):
        x = _PAD + place % columns * (panel.width + _PAD)
        y = _HEAD + place // columns * (panel.height + _PAD)
        out.append(f"<g transform='translate({x:.1f},{y:.1f})'>{panel.draw()}</g>")
    out.append(_legend(_PAD, height - _FOOT + 22))
    return "\n".join([*out, "</svg>", ""])


def _summary(loads: Sequence[LinkLoad]) -> str:
    sent = sum(load.up_bps for load in loads if load.link.kind == "host")
    down, hurt = (sum(load.state == s for load in loads) for s in (DOWN, HURT))
    words = f"hosts send {sent / 1e6:,.0f} Mbit/s; {len(loads)} links"
    return words + (f", {down} down" if down else "") + (f", {hurt} hurt" if hurt else "")


class _Panel:
    """One plane."""

    def __init__(self, plane: int, loads: Sequence[LinkLoad]) -> None:
        self.plane, self.loads = plane, loads
        nodes = {n for load in loads for n in (load.link.a_node, load.link.b_node)}
        self.tiers: list[list[Node]] = []
        for kind in _TIERS:
            tier = sorted((parse_node(n) for n in nodes if parse_node(n).kind == kind), key=lambda n: n.index)
            if tier:
                self.tiers.append(tier)
        widest = max(len(tier) for tier in self.tiers)
        self.width = widest * (_NODE_W + _GAP) - _GAP + 2 * _PAD
        self.height = (len(self.tiers) - 1) * _ROW + _NODE_H + 60
        self.at = self._places()

    def _places(self) -> dict[str, tuple[float, float]]:
        found = {}
        for row, tier in enumerate(reversed(self.tiers)):
            step = (self.width - 2 * _PAD) / len(tier)
            for place, node in enumerate(tier):
                found[node.name] = (_PAD + step * (place + 0.5), 44 + row * _ROW + _NODE_H / 2)
        return found

    def draw(self) -> str:
        out = [
            f"<rect width='{self.width:.1f}' height='{self.height:.1f}' rx='8' fill='#FBFBFA' stroke='#D8D8D4'/>",
            _text(14, 24, f"plane {self.plane}", 14, weight="bold"),
        ]
        # What is broken is drawn last, on top.
        for load in sorted(self.loads, key=lambda one: (one.state != "up", one.share)):
            out.append(self._link(load))
        out += [self._node(node) for tier in self.tiers for node in tier]
        return "".join(out)

    def _link(self, load: LinkLoad) -> str:
        (x1, y1), (x2, y2) = self.at[load.link.a_node], self.at[load.link.b_node]
        y1, y2 = y1 - _NODE_H / 2, y2 + _NODE_H / 2
        colour, width, dash = _look(load)
        line = (
            f"<line x1='{x1:.1f}' y1='{y1:.1f}' x2='{x2:.1f}' y2='{y2:.1f}' stroke='{colour}' "
            f"stroke-width='{width:.2f}'{dash}/>"
        )
        mark = _cross((x1 + x2) / 2, (y1 + y2) / 2) if load.state == DOWN else ""
        return f"<g>{line}{mark}<title>{escape(_words(load))}</title></g>"

    def _node(self, node: Node) -> str:
        x, y = self.at[node.name]
        return (
            f"<g><rect x='{x - _NODE_W / 2:.1f}' y='{y - _NODE_H / 2:.1f}' width='{_NODE_W}' height='{_NODE_H}' "
            f"rx='5' fill='{_FILL[node.kind]}' stroke='#6B7785'/>"
            + _text(x, y + 4.5, node.short, 12, anchor="middle")
            + f"<title>{escape(node.name)}</title></g>"
        )


def _look(load: LinkLoad) -> tuple[str, float, str]:
    """Colour, width and dashes of a link."""
    if load.state == DOWN:
        return _DOWN, 1.8, " stroke-dasharray='5 4'"
    share = min(load.share if load.rate_bps else max(load.up_bps, load.down_bps) / 1e10, 1.0)
    if share < 0.005:
        colour = "#{:02X}{:02X}{:02X}".format(*_IDLE)
    else:
        colour = "#{:02X}{:02X}{:02X}".format(
            *(round(a + (b - a) * share) for a, b in zip(_LIGHT, _DARK, strict=True))
        )
    if load.state == HURT:
        return _HURT, 1.8 + 4.2 * share, " stroke-dasharray='12 6'"
    return colour, 1.2 + 4.8 * share, " stroke-linecap='round'"


def _words(load: LinkLoad) -> str:
    rates = f"up {load.up_bps / 1e6:,.1f} Mbit/s, down {load.down_bps / 1e6:,.1f} Mbit/s"
    of = f" of {load.rate_bps / 1e6:,.0f}" if load.rate_bps else ""
    return f"{load.link.name}: {rates}{of}" + (f"; {load.state}: {load.why}" if load.state != "up" else "")


def _cross(x: float, y: float, r: float = 5.0) -> str:
    return (
        f"<circle cx='{x:.1f}' cy='{y:.1f}' r='{r + 2}' fill='#FFFFFF'/>"
        f"<path d='M{x - r:.1f} {y - r:.1f}L{x + r:.1f} {y + r:.1f}M{x - r:.1f} {y + r:.1f}L{x + r:.1f} {y - r:.1f}' "
        f"stroke='{_DOWN}' stroke-width='2.4' stroke-linecap='round'/>"
    )


def _legend(x: float, y: float) -> str:
    out = [_text(x, y + 4, "busier direction of a link:", 12, fill="#555555")]
    at = x + 190
    samples: tuple[tuple[str, float], ...] = (
        ("idle", 0.0),
        ("25 %", 0.25),
        ("50 %", 0.5),
        ("75 %", 0.75),
        ("full", 1.0),
    )
    for label, share in samples:
        ratio = share
        colour = (
            _IDLE
            if ratio == 0
            else tuple(round(a + (b - a) * ratio) for a, b in zip(_LIGHT, _DARK, strict=True))
        )
        out.append(
            f"<line x1='{at:.0f}' y1='{y:.0f}' x2='{at + 34:.0f}' y2='{y:.0f}' "
            f"stroke='#{colour[0]:02X}{colour[1]:02X}{colour[2]:02X}' stroke-width='{1.2 + 4.8 * ratio:.2f}'/>"
        )
        out.append(_text(at + 40, y + 4, label, 12))
        at += 92
    marks: Mapping[str, tuple[str, str]] = {"down": (_DOWN, "5 4"), "hurt": (_HURT, "9 4")}
    for word, (colour_name, dash) in marks.items():
        out.append(
            f"<line x1='{at:.0f}' y1='{y:.0f}' x2='{at + 34:.0f}' y2='{y:.0f}' stroke='{colour_name}' "
            f"stroke-width='2' stroke-dasharray='{dash}'/>"
        )
        if word == "down":
            out.append(_cross(at + 17, y, 4.0))
        out.append(_text(at + 40, y + 4, word, 12))
        at += 92
    return "".join(out)


def _text(
    x: float,
    y: float,
    words: str,
    size: int,
    *,
    weight: str = "normal",
    fill: str = "#222222",
    anchor: str = "start",
) -> str:
    return (
        f"<text x='{x:.1f}' y='{y:.1f}' font-size='{size}' font-weight='{weight}' fill='{fill}' "
        f"text-anchor='{anchor}'>{escape(words)}</text>"
    )
