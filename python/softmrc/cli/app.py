"""The command line.

Which commands there are. Each one lives in its own module and imports what it needs when it runs.
"""

from __future__ import annotations

import errno
import importlib
import sys
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from softmrc.cli.output import FAILED, OutputError, discard_output, explain_output, note
from softmrc.cli.pages import use_huge_pages

__all__ = ["app", "main"]

# Command: (module, function, first line of its help). The modules are imported only when their command is
# used, so that `softmrc --help` answers at once.
_COMMANDS = {
    "send": ("softmrc.cli.send", "send", "Send files and directories to a receiver."),
    "recv": ("softmrc.cli.recv", "recv", "Receive files and directories."),
    "ping": ("softmrc.cli.ping", "ping", "Round trip and loss of every path to a peer."),
    "perf": ("softmrc.cli.perf", "perf", "Bandwidth, message rate and latency between two hosts."),
    "demo": ("softmrc.cli.demo", "demo", "Move a file over 8 planes while planes and paths fail."),
    "train-demo": (
        "softmrc.cli.train_demo",
        "train_demo",
        "Train over MRC and over gloo while planes and switches fail.",
    ),
    "doctor": ("softmrc.cli.doctor", "doctor", "Say what this host offers and what to change."),
    "lab": ("softmrc.cli.lab", "lab", "A multi-plane SRv6 fabric on this host, in the kernel."),
    "sim": ("softmrc.cli.sim", "sim", "Simulate a fabric, from two hosts to 131,072."),
    "paper": ("softmrc.cli.paper", "paper", "Compare the simulator with the MRC paper's results."),
    "plot": ("softmrc.cli.plot", "plot", "Draw the figures of a simulation."),
    "chaos": ("softmrc.cli.chaos", "chaos", "Two engines in virtual time under random failures."),
    "bench": ("softmrc.cli.bench", "bench", "Compare with TCP, MPTCP, gloo and bare sockets here."),
    "vectors": ("softmrc.cli.vectors", "vectors", "Check a file of test vectors."),
}


class _Lazy(TyperGroup):
    """Knows all commands, loads one."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in _COMMANDS:
            return None
        module, function, _ = _COMMANDS[cmd_name]
        found = getattr(importlib.import_module(module), function)
        if isinstance(found, typer.Typer):  # a command with subcommands
            return typer.main.get_command(found)
        single = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        single.command(name=cmd_name)(found)
        return typer.main.get_command(single)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, _, text) in _COMMANDS.items()])


app = typer.Typer(
    name="softmrc",
    cls=_Lazy,
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 done, 1 failed, 2 wrong use, 3 peer refused or unreachable, "
    "4 done except for named files, 130 interrupted.",
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        try:
            found = version("softmrc")
        except PackageNotFoundError:  # used from a source tree
            from softmrc import __version__ as found
        typer.echo(f"softmrc {found} (MRC 1.0)")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """MRC 1.0 (Multipath Reliable Connection) in software.

    \b
    softmrc demo                                 see it work, no second machine needed
    softmrc recv --listen 10.0.0.2,10.1.0.2 --dir in
    softmrc send model.ckpt 10.0.0.2             on the other machine
    """


def main(*args: Any, **kwargs: Any) -> None:
    """Entry point of the `softmrc` command; the one place that knows what to do when stdout takes nothing."""
    use_huge_pages()
    try:
        try:
            app(*args, **kwargs)
        finally:
            # Here and not at the interpreter's end, where a full disk is a traceback and exit code 120.
            if sys.stdout is not None:
                sys.stdout.flush()
    except OutputError as error:
        _end_without_output(str(error), quiet=error.quiet)
    except OSError as error:
        # Commands turn the errors of their work into messages; what is left comes from printing.
        _end_without_output(explain_output(error), quiet=error.errno == errno.EPIPE)


def _end_without_output(why: str, *, quiet: bool) -> NoReturn:
    discard_output()
    if not quiet:
        note(f"softmrc: {why}")
    raise SystemExit(FAILED)


if __name__ == "__main__":
    main()
