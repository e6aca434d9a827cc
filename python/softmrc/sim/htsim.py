"""Connection matrices of htsim (`.cm`, `.tm`): what is in such a file, read strictly, and written again.

Decides which lines are a matrix; leaves what flows and triggers mean for a run to `softmrc.sim.htsim_workload`.
The format is that of csg-htsim and uet-htsim: a header (`Nodes`, `Connections`, `Triggers`, `Failures`), then one
line for each connection, trigger and failed link. Starts are picoseconds, sizes bytes, size 0 is a flow without end.
`#` begins a comment line. What htsim would stop at is refused here with file and line; sizes may pass 2^31.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from softmrc.errors import UsageError
from softmrc.sim.workload import MAX_SIZE, MAX_TIME_NS
from softmrc.sim.workloads import permutation_pairs

__all__ = [
    "DEFAULT_PRIORITY",
    "Connection",
    "FailedLink",
    "Matrix",
    "Trigger",
    "parse_matrix",
    "permutation_matrix",
    "permutation_name",
    "read_matrix",
]

DEFAULT_PRIORITY = 2_000_000
_KINDS = ("oneshot", "multishot", "barrier")
_TIERS = ("TOR", "AGG", "CORE")


@dataclass(frozen=True)
class Connection:
    """One line `src->dst ...`."""

    line: int
    source: int
    destination: int
    size: int
    """Bytes; 0: without end."""
    id: int = 0
    """0: none given."""
    start_ns: int | None = None
    """None: a trigger starts it."""
    trigger: int = 0
    """Trigger that starts it; 0: none."""
    send_done_trigger: int = 0
    """Trigger told when the sender has every acknowledgement; 0: none."""
    recv_done_trigger: int = 0
    """Trigger told when the receiver has every byte; 0: none."""
    priority: int = DEFAULT_PRIORITY


@dataclass(frozen=True)
class Trigger:
    """One line `trigger ...`."""

    line: int
    id: int
    kind: str
    """oneshot: the first telling starts all its flows; multishot: each telling starts the next; barrier: the
    `count`-th telling starts all."""
    count: int = 0


@dataclass(frozen=True)
class FailedLink:
    """One line `failure ...`: an uplink that is down from the start."""

    line: int
    tier: str
    """TOR, AGG or CORE."""
    switch: int
    link: int


@dataclass(frozen=True)
class Matrix:
    """A whole file."""

    path: str
    nodes: int
    connections: tuple[Connection, ...]
    triggers: dict[int, Trigger] = field(default_factory=dict)
    failures: tuple[FailedLink, ...] = ()


def read_matrix(path: str | Path) -> Matrix:
    """Read a connection matrix.

    Raises:
        UsageError: it cannot be read, or a line is wrong; names file and line.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as e:
        raise UsageError(f"cannot read the connection matrix {path}: {e}") from e
    return parse_matrix(text, str(path))


def parse_matrix(text: str, path: str = "matrix") -> Matrix:
    """Read a connection matrix from text; `path` is for messages.

    Raises:
        UsageError: a line is wrong; names file and line.
    """
    return _Reader(path).read(text)


class _Reader:
    """Goes through the lines of one matrix; `self.line` is the one at hand."""

    def __init__(self, path: str) -> None:
        self.path, self.line = path, 0
        self.header: dict[str, tuple[int, int]] = {}
        self.connections: list[Connection] = []
        self.triggers: dict[int, Trigger] = {}
        self.failures: list[FailedLink] = []
        self.ids: dict[int, int] = {}

    def read(self, text: str) -> Matrix:
        body = False
        for number, line in enumerate(text.splitlines(), 1):
            self.line = number
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            if words[0] in ("Nodes", "Connections", "Triggers", "Failures"):
                if body:
                    raise self.error(f"{words[0]} belongs above the first connection, trigger and failure")
                self.read_header(words)
                continue
            body = True
            self.nodes()
            if "->" in words[0]:
                self.read_connection(words)
            elif words[0] == "trigger":
                self.read_trigger(words[1:])
            elif words[0] == "failure":
                self.read_failure(words[1:])
            else:
                raise self.error(f"{words[0]!r} begins no line; expected SRC->DST, trigger or failure")
        self.check_counts()
        self.check_triggers()
        return Matrix(self.path, self.nodes(), tuple(self.connections), self.triggers, tuple(self.failures))

    def error(self, text: str, line: int | None = None) -> UsageError:
        return UsageError(f"{self.path}:{self.line if line is None else line}: {text}")

    def nodes(self) -> int:
        if "Nodes" not in self.header:
            raise self.error("the header has no line 'Nodes N'")
        return self.header["Nodes"][0]

    def whole(self, word: str, what: str, least: int = 0, most: int = (1 << 31) - 1) -> int:
        if not word.isascii() or not word.isdigit():
            raise self.error(f"{what} is a whole number, not {word!r}")
        value = int(word)
        if not least <= value <= most:
            raise self.error(f"{what} {value} is outside {least}..{most}")
        return value

    def read_header(self, words: list[str]) -> None:
        if len(words) != 2:
            raise self.error(f"expected '{words[0]} N', not {' '.join(words)!r}")
        if words[0] in self.header:
            raise self.error(f"{words[0]} is given twice; first in line {self.header[words[0]][1]}")
        self.header[words[0]] = (self.whole(words[1], words[0], int(words[0] == "Nodes")), self.line)

    def pairs(
        self, words: list[str], keys: dict[str, Callable[[str], object]], flags: Iterable[str] = ()
    ) -> dict[str, object]:
        """Read `key value` pairs and single words, each at most once."""
        out: dict[str, object] = {}
        at = 0
        while at < len(words):
            key = words[at]
            if key in out:
                raise self.error(f"{key!r} is given twice")
            if key in flags:
                out[key] = True
                at += 1
                continue
            if key not in keys:
                raise self.error(f"unknown word {key!r}; known here: {', '.join([*keys, *flags])}")
            if at + 1 == len(words):
                raise self.error(f"{key!r} needs a value after it")
            out[key] = keys[key](words[at + 1])
            at += 2
        return out

    def read_connection(self, words: list[str]) -> None:
        source, _, destination = words[0].partition("->")
        most = self.nodes() - 1
        ends = [
            self.whole(w, what, 0, most) for w, what in ((source, "source"), (destination, "destination"))
        ]
        if ends[0] == ends[1]:
            raise self.error(f"node {ends[0]} sends to itself; such a flow never meets the network")
        keys: dict[str, Callable[[str], object]] = {
            "id": lambda w: self.whole(w, "flow id", 1),
            "start": self.start_ns,
            "size": lambda w: self.whole(w, "size", 0, MAX_SIZE),
            "trigger": lambda w: self.whole(w, "trigger", 1),
            "send_done_trigger": lambda w: self.whole(w, "send_done_trigger", 1),
            "recv_done_trigger": lambda w: self.whole(w, "recv_done_trigger", 1),
            "prio": lambda w: self.whole(w, "prio"),
        }
        got = self.pairs(words[1:], keys, ("addon",))
        if "addon" in got:
            raise self.error(
                "'addon' (a trigger adds bytes to a running flow) is not supported; use a flow for each"
            )
        if "size" not in got:
            raise self.error("the flow has no size; 'size 0' is a flow without end")
        if ("start" in got) == ("trigger" in got):
            raise self.error("a flow begins by 'start PS' or by 'trigger N', by exactly one of them")
        if "trigger" in got and "id" not in got:
            raise self.error("a flow that a trigger starts needs an id")
        names = {"start": "start_ns", "prio": "priority"}
        values = {names.get(k, k): v for k, v in got.items()}
        flow = Connection(self.line, *ends, **values)  # type: ignore[arg-type]
        if flow.size == 0 and (flow.send_done_trigger or flow.recv_done_trigger):
            raise self.error("a flow without end (size 0) is never done, so it can tell no trigger")
        if flow.id:
            if flow.id in self.ids:
                raise self.error(f"flow id {flow.id} is taken by line {self.ids[flow.id]}")
            self.ids[flow.id] = self.line
        self.connections.append(flow)

    def start_ns(self, word: str) -> int:
        try:
            start = float(word)
        except ValueError:
            raise self.error(f"start is a time in picoseconds, not {word!r}") from None
        if not 0 <= start <= MAX_TIME_NS * 1000:
            raise self.error(f"start {word} ps is outside 0..{MAX_TIME_NS * 1000}")
        return round(start / 1000)

    def read_trigger(self, words: list[str]) -> None:
        keys: dict[str, Callable[[str], object]] = {
            "id": lambda w: self.whole(w, "trigger id", 1),
            "count": lambda w: self.whole(w, "count", 1),
        }
        got = self.pairs(words, keys, _KINDS)
        kinds = [k for k in _KINDS if k in got]
        if "id" not in got or len(kinds) != 1:
            raise self.error(f"a trigger has an id and is one of {', '.join(_KINDS)}")
        if (kinds[0] == "barrier") != ("count" in got):
            raise self.error("a barrier, and only a barrier, has a count")
        trigger = Trigger(self.line, int(str(got["id"])), kinds[0], int(str(got.get("count", 0))))
        if trigger.id in self.triggers:
            raise self.error(
                f"trigger {trigger.id} is defined in line {self.triggers[trigger.id].line} already"
            )
        self.triggers[trigger.id] = trigger

    def read_failure(self, words: list[str]) -> None:
        keys: dict[str, Callable[[str], object]] = {
            "switch_type": str,
            "switch_id": lambda w: self.whole(w, "switch_id"),
            "link_id": lambda w: self.whole(w, "link_id"),
        }
        got = self.pairs(words, keys)
        if len(got) != 3:
            raise self.error("a failure has switch_type, switch_id and link_id")
        if got["switch_type"] not in _TIERS:
            raise self.error(f"switch_type is TOR, AGG or CORE, not {got['switch_type']!r}")
        if got["switch_type"] == "CORE":
            raise self.error("a CORE switch has no uplinks, and link_id counts uplinks; name the AGG's end")
        tier, switch, link = str(got["switch_type"]), int(str(got["switch_id"])), int(str(got["link_id"]))
        self.failures.append(FailedLink(self.line, tier, switch, link))

    def check_counts(self) -> None:
        self.nodes()
        found = {
            "Connections": len(self.connections),
            "Triggers": len(self.triggers),
            "Failures": len(self.failures),
        }
        for what, count in found.items():
            promised, line = self.header.get(what, (0, 1))
            if promised != count:
                raise self.error(f"the header promises {what} {promised}, the file has {count}", line)
        if not self.connections:
            raise self.error("no connection", 1)

    def check_triggers(self) -> None:
        for flow in self.connections:
            for word in ("trigger", "send_done_trigger", "recv_done_trigger"):
                number = getattr(flow, word)
                if number and number not in self.triggers:
                    raise self.error(
                        f"{word} {number} is defined nowhere; add 'trigger id {number} ...'", flow.line
                    )


def permutation_matrix(
    nodes: int, size: int, *, connections: int | None = None, start_us: int = 0, seed: int = 1
) -> str:
    """Return the text of a permutation matrix: everyone sends to one other node.

    Args:
        nodes: at least 2.
        size: bytes of each flow, 0: without end.
        connections: how many of the nodes send, None: all.
        start_us: when all begin.
        seed: of the drawing.

    Raises:
        UsageError: a number out of range.
    """
    count = nodes if connections is None else connections
    if not 1 <= count <= nodes:
        raise UsageError(f"{count} connections among {nodes} nodes; a permutation has 1..{nodes}")
    if not 0 <= size <= MAX_SIZE or not 0 <= start_us * 1000 <= MAX_TIME_NS:
        raise UsageError(f"size {size} bytes or start {start_us} us is out of range")
    to = permutation_pairs(nodes, seed).tolist()
    lines = [f"Nodes {nodes}", f"Connections {count}"]
    lines += [f"{i}->{to[i]} id {i + 1} start {start_us * 1_000_000} size {size}" for i in range(count)]
    return "\n".join(lines) + "\n"


def permutation_name(nodes: int, size: int, *, connections: int | None = None, start_us: int = 0) -> str:
    """Return the name by which such files go, for instance perm_1024n_1024c_0u_2000000b.cm."""
    return f"perm_{nodes}n_{nodes if connections is None else connections}c_{start_us}u_{size}b.cm"
