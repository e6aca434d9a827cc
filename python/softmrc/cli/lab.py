"""`softmrc lab`: a multi-plane SRv6 fabric on this host.

Which subcommands there are. Each lives in a module `cli/lab_*.py` of its own with a function `register`, and imports
the lab when it runs.
"""

from __future__ import annotations

import typer

from softmrc.cli import (
    lab_base,
    lab_compare,
    lab_export,
    lab_fail,
    lab_incast,
    lab_locate,
    lab_map,
    lab_paper,
    lab_test,
)

__all__ = ["lab"]

lab = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="""A multi-plane SRv6 fabric on this host: switches, hosts and links in the kernel, broken at will.

    \b
    softmrc lab up --planes 4 --t0 2 --t1 4 --hosts 8     up in seconds
    softmrc lab test                                      every path of every pair, switch by switch
    softmrc lab exec h7 -- softmrc perf                   any program, in any host
    softmrc lab exec h0 -- softmrc perf fc00:1:8007::
    softmrc lab fail p2.t1-3 --for 3s                     a host port, link, switch, plane, transceiver
    softmrc lab down                                      nothing stays

    Exit codes: 0 done, 1 failed or a check does not hold, 2 wrong use, 130 interrupted; exec: the program's own.
    """,
)
# In the order of the help.
for _part in (
    lab_base,
    lab_test,
    lab_fail,
    lab_locate,
    lab_incast,
    lab_map,
    lab_export,
    lab_compare,
    lab_paper,
):
    _part.register(lab)
