"""Scripts of timed failures: TOML files with [[fault]] tables, and recordings of such runs.

seed = 1                        # of everything drawn

[[fault]]
at = "1s"                       # after the start
target = "p2.t1-3"              # or a list of them, or pick = { of = "t0-t1", count = 3, plane = 2 }
for = "3s"                      # none: it stays
loss = "5%"                     # or silent, corrupt, rate, direction, end, flap as `softmrc lab fail`; none: down

[[fault]]
at = "2s"
target = "h0.p1"
times = 5                       # again every 500 ms; with poisson = true and until: at random
every = "500ms"
for = "100ms"

The tables of the simulator's scenarios (kind, value, at_ns, duration_ns, ...) are read as well. Decides what happens
when; leaves doing it to player.py. Equal files and labs give equal actions.
"""

from __future__ import annotations

import difflib
import json
import random
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softmrc.errors import UsageError
from softmrc.lab import amounts
from softmrc.lab.condition import Harm

if TYPE_CHECKING:
    from softmrc.lab.lab import Lab
    from softmrc.lab.player import Play

__all__ = ["Action", "Script"]

_KINDS = {
    "link_down": "", "port_down": "", "switch_down": "", "switch_reboot": "", "link_loss": "loss",
    "link_corrupt": "corrupt", "link_rate": "rate",
}  # fmt: skip
_REPAIRS = ("link_up", "port_up", "switch_up")
_SHARES = ("loss", "corrupt", "rate", "value")
_TIMES = {"at": "at", "for": "for", "every": "every", "until": "until"}
_TIMES_NS = {"at_ns": "at", "duration_ns": "for", "every_ns": "every", "until_ns": "until"}
_PLAIN = (
    "target", "pick", "silent", "direction", "end", "flap", "heal", "times", "poisson", "kind", "seed",
)  # fmt: skip
_KNOWN = (*_SHARES, *_TIMES, *_TIMES_NS, *_PLAIN)
_PICK = ("of", "count", "fraction", "plane")
_LAYERS = {"host-t0": ("host", "t0"), "t0-t1": ("t0", "t1"), "t1-t2": ("t1", "t2")}
_MOST = 100_000


@dataclass(frozen=True)
class Action:
    """One thing to do.

    Attributes:
        at: seconds after the start.
        target: what breaks or heals.
        harm: what it does; None: it heals.
        key: joins a failure with the repair that ends it; 0: everything on the target heals.
        flap: seconds in force and not, in turn.
    """

    at: float
    target: str
    harm: Harm | None
    key: int = 0
    flap: tuple[float, float] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the fields."""
        return {
            "at": self.at, "do": "heal" if self.harm is None else "fail", "target": self.target, "key": self.key,
            "harm": None if self.harm is None else self.harm.to_json(), "flap": self.flap,
        }  # fmt: skip

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Action:
        """Read what `to_json` made; other keys are left alone."""
        harm = None if data["harm"] is None else Harm(**data["harm"])
        flap = (data["flap"][0], data["flap"][1]) if data["flap"] else None
        return cls(float(data["at"]), str(data["target"]), harm, int(data["key"]), flap)


@dataclass(frozen=True)
class Script:
    """What is to happen, before anything is drawn.

    Attributes:
        tables: the [[fault]] tables, checked.
        seed: of what is drawn in tables that have none of their own.
        recorded: instead of tables, the actions of an earlier run.
    """

    tables: tuple[Mapping[str, Any], ...] = ()
    seed: int = 1
    recorded: tuple[Action, ...] = ()

    @classmethod
    def load(cls, path: str | Path) -> Script:
        """Read a script, or what `softmrc lab run --log` has written (*.jsonl).

        Raises:
            UsageError: it cannot be read, or says something unknown or impossible; names the file and the place.
        """
        file = Path(path)
        try:
            text = file.read_text(encoding="utf-8")
            if file.suffix == ".jsonl":
                lines = [json.loads(line) for line in text.splitlines() if line.strip()]
                return cls(recorded=tuple(Action.from_json(line) for line in lines if "do" in line))
            return cls.parse(text)
        except OSError as error:
            raise UsageError(f"{file}: {error.strerror}") from None
        except UsageError as error:
            raise UsageError(f"{file}: {error}") from None
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{file}: no script: {error}") from None

    @classmethod
    def parse(cls, text: str) -> Script:
        """Read the text of a script.

        Raises:
            UsageError: it is no TOML, or says something unknown or impossible.
        """
        try:
            data = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise UsageError(f"no TOML: {error}") from None
        faults = data.get("fault")
        if not isinstance(faults, list) or not faults:
            raise UsageError("there is no [[fault]] table")
        seed = data.get("seed", 1)
        if not isinstance(seed, int):
            raise UsageError(f"seed is a whole number, not {seed!r}")
        return cls(tuple(_checked(t, f"fault[{i}]") for i, t in enumerate(faults)), seed)

    def actions(self, lab: Lab) -> list[Action]:
        """Return all that will be done in a lab, in order of time.

        Raises:
            UsageError: a target or a pick the lab does not have.
        """
        if self.recorded:
            found = list(self.recorded)
            for action in found:
                lab.links_of(action.target)
        else:
            found = []
            for i, table in enumerate(self.tables):
                rng = random.Random(f"{table.get('seed', self.seed)}/{i}")
                found += _expand(table, lab, rng, len(found) + 1)
        if len(found) > _MOST:
            raise UsageError(f"{len(found)} actions: at most {_MOST}")
        return sorted(found, key=lambda action: action.at)

    def play(self, lab: Lab, *, start_ns: int | None = None) -> Play:
        """Begin to do it, in a thread; see `softmrc.lab.player.Play`.

        Args:
            lab: where.
            start_ns: CLOCK_MONOTONIC of time 0; None: now.
        """
        from softmrc.lab.player import Play

        play = Play(lab, self.actions(lab), start_ns)
        play.start()
        return play


def _checked(table: Any, where: str) -> dict[str, Any]:
    """Return a table with its amounts as numbers, and the simulator's words as ours."""
    if not isinstance(table, Mapping):
        raise UsageError(f"{where} is a table, not {table!r}")
    _known(table, _KNOWN, where)
    made: dict[str, Any] = {key: table[key] for key in _PLAIN if key in table}
    for key in _SHARES:
        if key in table:
            made[key] = amounts.share(table[key], f"{where}.{key}")
    for names, unit in ((_TIMES, 1.0), (_TIMES_NS, 1e-9)):
        for key, name in names.items():
            if key in table:
                made[name] = amounts.seconds(table[key], f"{where}.{key}", unit)
    if "flap" in made:
        made["flap"] = amounts.flap(str(made["flap"]), f"{where}.flap")
    _translate(made, where)
    if ("target" in made) == ("pick" in made):
        raise UsageError(f"{where}: give target (a name or a list of them) or pick (a table), and not both")
    if "pick" in made:
        _check_pick(made["pick"], f"{where}.pick")
    poisson = made.get("poisson", False)
    if (made.get("times", 1) > 1 or poisson) and not made.get("every"):
        raise UsageError(f"{where}: times and poisson need every")
    if poisson != ("until" in made):
        raise UsageError(f"{where}: poisson and until go together")
    if not made.get("heal"):
        _harm(made, where)
    return made


def _known(given: Iterable[str], known: Iterable[str], where: str) -> None:
    names = sorted(known)
    for key in given:
        if key not in names:
            close = difflib.get_close_matches(key, names, n=1)
            hint = f"did you mean {close[0]}? " if close else ""
            raise UsageError(f"{where}.{key} is unknown; {hint}known here: {', '.join(names)}")


def _translate(made: dict[str, Any], where: str) -> None:
    """Turn `kind` and `value` of the simulator into our words."""
    kind, value = made.pop("kind", None), made.pop("value", None)
    if kind is None:
        if value is not None:
            raise UsageError(f"{where}.value goes with kind; without it say loss, corrupt or rate")
        return
    if kind in _REPAIRS:
        made["heal"] = True
    elif kind not in _KINDS:
        raise UsageError(f"{where}.kind = {kind!r}: {', '.join((*_KINDS, *_REPAIRS))}")
    elif _KINDS[kind]:
        healthy = 1.0 if kind == "link_rate" else 0.0
        if (healthy if value is None else value) == healthy:
            made["heal"] = True
        else:
            made[_KINDS[kind]] = value


def _check_pick(pick: Any, where: str) -> None:
    if not isinstance(pick, Mapping):
        raise UsageError(f"{where} is a table, not {pick!r}")
    _known(pick, _PICK, where)
    if pick.get("of") not in (*_LAYERS, "t0", "t1", "t2"):
        raise UsageError(f"{where}.of = {pick.get('of')!r}: {', '.join((*_LAYERS, 't0', 't1', 't2'))}")
    if ("count" in pick) == ("fraction" in pick):
        raise UsageError(f"{where}: give count or fraction, and not both")


def _harm(table: Mapping[str, Any], where: str) -> Harm:
    names = ("silent", "loss", "corrupt", "rate", "direction", "end")
    try:
        return Harm(**{name: table[name] for name in names if name in table})
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None


def _expand(table: Mapping[str, Any], lab: Lab, rng: random.Random, key: int) -> list[Action]:
    """Return the single actions of a table, its repairs with them."""
    targets = _targets(table, lab, rng)
    harm = None if table.get("heal") else _harm(table, "fault")
    found: list[Action] = []
    for at, chosen in _moments(table, targets, rng):
        for target in chosen:
            found.append(Action(at, target, harm, 0 if harm is None else key, table.get("flap")))
            if harm is not None and table.get("for"):
                found.append(Action(at + table["for"], target, None, key))
            key += 1
    return found


def _moments(
    table: Mapping[str, Any], targets: list[str], rng: random.Random
) -> Iterable[tuple[float, list[str]]]:
    at, every = table.get("at", 0.0), table.get("every", 0.0)
    if not table.get("poisson"):
        for i in range(table.get("times", 1)):
            yield at + i * every, targets
        return
    while True:
        at += rng.expovariate(1 / every)
        if at >= table["until"]:
            return
        yield at, [rng.choice(targets)]


def _targets(table: Mapping[str, Any], lab: Lab, rng: random.Random) -> list[str]:
    if "target" in table:
        given = table["target"]
        names = [given] if isinstance(given, str) else [str(name) for name in given]
        for name in names:
            lab.links_of(name)
        return names
    pick = table["pick"]
    plane = pick.get("plane")
    if pick["of"] in _LAYERS:
        kinds = _LAYERS[pick["of"]]
        all_ = [
            link.name
            for link in lab.links
            if (_kind(link.a_node), _kind(link.b_node)) == kinds and plane in (None, link.plane)
        ]
    else:
        all_ = [
            name
            for name in lab.nodes
            if _kind(name) == pick["of"] and (plane is None or name.startswith(f"p{plane}."))
        ]
    count = pick["count"] if "count" in pick else max(1, round(len(all_) * pick["fraction"]))
    if not 1 <= count <= len(all_):
        raise UsageError(f"pick: {count} of {pick['of']} asked for, the lab has {len(all_)}")
    chosen = set(rng.sample(range(len(all_)), count))
    return [name for i, name in enumerate(all_) if i in chosen]


def _kind(node: str) -> str:
    return "host" if node.startswith("h") else node.partition(".")[2].partition("-")[0]
