"""The command line's subcommands, and what every one of them has in common."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from replica_client._compiled import compiled
from replica_client._version import __version__
from replica_client.cli.failures import DONE, INTERRUPTED, WRONG_USAGE
from replica_client.cli.flags import Command
from replica_client.cli.output import message
from replica_client.cli.program import PROGRAM

_COMPLETE = f"_{PROGRAM.replace('-', '_').upper()}_COMPLETE"
# typer makes this of its own (or of click's, by its version): the base of every usage error.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]


def version_text() -> str:
    """Return the version, and which implementation of the hot modules runs."""
    form = "compiled" if compiled() else "pure Python"
    return f"{PROGRAM} {__version__} ({form}, Python {platform.python_version()})"


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(version_text())
        raise typer.Exit


def _common(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and exit.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Options before the subcommand."""


# Each is a module of this package of the same name (`as_of` for `as-of`), with a function of that name and an EXAMPLE,
# or, with the mark, with commands of its own.
_WITH_COMMANDS = frozenset(("schema", "position", "lake"))
_SECTIONS = {
    "Set up": {
        "doctor": "Check whether a source can be followed.",
        "init": "Write a commented configuration from a URL that it checks.",
        "migrate": "Take over the configuration of Debezium, Maxwell or Canal.",
        "demo": "See it at work: no server needed.",
    },
    "Follow": {
        "changes": "Print row changes.",
        "events": "Print every event.",
        "position": "Show, compare and set saved positions.",
    },
    "Files": {
        "sql": "Ask row changes in SQL.",
        "check": "Check that files are whole.",
        "annotate": "Explain each byte of an event.",
        "schema": "Show what tables looked like, by position.",
        "index": "Make the indexes that find, history and stats use.",
    },
    "Recover": {
        "backup": "Copy a source's binlog files, byte for byte.",
        "find": "Find the changes of a row, a column, a table.",
        "history": "Show the life of one row.",
        "stats": "Show where the volume comes from.",
        "as-of": "Print a table as it was.",
        "undo": "Print SQL that takes changes back.",
        "redo": "Print SQL that makes changes again.",
        "recover": "Bring a server to a moment, from a dump and an archive.",
    },
    "Serve": {
        "run": "Run the position-resume daemon.",
        "service": "Look at the running daemon, pause and resume it.",
        "snapshot": "Ask the daemon for the rows of tables.",
        "relay": "Read a source's binlog once and serve it to replicas.",
        "serve": "Serve binlog files over the replication protocol.",
    },
    "Lake": {
        "pipeline": "Run the Spark pipeline.",
        "lake": "Look after the tables of a pipeline's lake.",
        "verify": "Compare the lake with its source.",
    },
}
_SHORT = {name: short for commands in _SECTIONS.values() for name, short in commands.items()}


class _Sections(TyperGroup):
    """The command's help, with the subcommands by what they are for."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write each section."""
        for title, commands in _SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl(list(commands.items()))


def make_app(only: str = "") -> typer.Typer:
    """Make the command, with all its subcommands.

    Args:
        only: a subcommand: it alone is imported, so that it starts sooner. The others, and all of them
            when there is none of that name, are known by name and short help.
    """
    app = typer.Typer(
        name=PROGRAM,
        cls=_Sections,
        help="Reads binlog files and live MySQL and MariaDB sources over the replication protocol.",
        epilog="SOURCE is a binlog path (or several), or a mysql:// or mariadb:// URL.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_common)
    for name, short in _SHORT.items():
        if name != only:
            app.command(name, short_help=short)(_not_imported)
        elif name in _WITH_COMMANDS:
            app.add_typer(_module(name).app, name=name, short_help=short)
        else:
            module = _module(name)
            add = app.command(
                name, cls=Command, short_help=short, epilog=f"Example:  {module.EXAMPLE}"
            )
            add(getattr(module, name.replace("-", "_")))
    return app


def _not_imported() -> None:
    """Stands for a subcommand that was not asked for."""


def _module(name: str) -> ModuleType:
    module = "orders" if name == "service" else name.replace("-", "_")
    return import_module(f"replica_client.cli.{module}")


def run_words(words: Sequence[str]) -> int:
    """Run the command with some arguments; returns its exit status.

    Raises:
        ReplicaClientError: the input or the source is faulty.
        OSError: a file or the network fails.
    """
    command = typer.main.get_command(make_app(_subcommand(words)))
    try:
        status = command.main(list(words), prog_name=PROGRAM, standalone_mode=False)
    except typer.Abort:
        return INTERRUPTED
    except SystemExit as ended:
        # Click ends by itself when nobody reads standard output; main() says what becomes of that.
        if isinstance(ended.__context__, BrokenPipeError):
            raise ended.__context__ from None
        raise
    except _UsageError as error:
        context = getattr(error, "ctx", None)
        if type(error).__name__ == "NoArgsIsHelpError" and context is not None:
            message(context.get_help())
            return WRONG_USAGE
        message(_usage_line(error))
        return WRONG_USAGE
    return status if isinstance(status, int) else DONE


def _subcommand(words: Sequence[str]) -> str:
    if _COMPLETE in os.environ:
        # A shell asks what may follow: the line so far is in the environment.
        line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")
        words = line.split()[1:]
    return next((word for word in words if not word.startswith("-")), "")


def _usage_line(error: Any) -> str:
    context = getattr(error, "ctx", None)
    path = PROGRAM if context is None else str(context.command_path)
    text = " ".join(str(error.format_message()).split())
    return f"{path}: {text.rstrip('.')}; see '{path} --help'"
