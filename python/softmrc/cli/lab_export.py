"""`softmrc lab export`: the fabric's static SRv6 configuration for real switches."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from softmrc.cli.lab_options import Json, Name
from softmrc.cli.output import guard, note, put, put_json

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the subcommand."""
    app.command("export")(export)


def export(
    name: Name = "lab",
    form: Annotated[str, typer.Option("--format", help="frr, or sonic (CONFIG_DB).")] = "frr",
    node: Annotated[str | None, typer.Option(help="One switch, for instance p1.t0-0; none: all.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for one file a switch; none: print.")] = None,
    json: Json = False,
) -> None:
    """Write the SIDs and static routes of each switch in the language of FRR or SONiC.

    Locators are uN in a 32-bit block a plane with 16-bit uSIDs, as in the lab; --ua labs have their uA SIDs, too. Links
    get a /127 each out of fdfc::/16, and ports are named as in the lab (FRR) or Ethernet0, 4, ... in its order (SONiC).

    \b
    softmrc lab export --format frr --node p1.t0-0
    softmrc lab export --format sonic --out config

    Exit codes: 0 done, 2 no such lab, switch or format.
    """
    with guard("lab export", json):
        from softmrc.lab import Lab
        from softmrc.lab.export import FORMATS, export_fabric

        lab = Lab.load(name)
        made = export_fabric(lab.plan, form, node)
        lab.close()
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
            for switch, text in made.items():
                (out / f"{switch}{FORMATS[form]}").write_text(text, encoding="utf-8")
            note(f"wrote {len(made)} files to {out}")
        if json:
            put_json({"ok": True, "format": form, "switches": made})
        elif out is None:
            for switch, text in made.items():
                if len(made) > 1:
                    put(f"{'!' if form == 'frr' else '//'} {switch}")
                put(text.rstrip("\n"))
