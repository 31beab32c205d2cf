"""The command line's subcommands, and what every one of them has in common."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from replica_client._compiled import compiled
from replica_client._version import __version__
from replica_client.cli.flags import Command
from replica_client.cli.output import message
from replica_client.cli.program import DONE, INTERRUPTED, PROGRAM, WRONG_USAGE

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


# By section and name: the short help, and an example of the arguments; a command without one has commands of its own.
_SECTIONS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "Set up": {
        "doctor": (
            "Check whether a source can be followed.",
            "replica-client doctor mysql://repl@db1/",
        ),
        "init": (
            "Write a commented configuration from a URL that it checks.",
            "replica-client init mysql://repl@db1/ shop.toml",
        ),
        "migrate": (
            "Take over the configuration of Debezium, Maxwell or Canal.",
            "replica-client migrate debezium shop.json --offset offsets.dat --output shop.toml",
        ),
        "demo": ("See it at work: no server needed.", "replica-client demo"),
    },
    "Follow": {
        "changes": (
            "Print row changes.",
            "replica-client changes mysql://repl@db1/ --table 'shop.*' --json",
        ),
        "events": ("Print every event.", "replica-client events --json binlog.000024"),
        "position": ("Show, compare and set saved positions.", ""),
    },
    "Files": {
        "sql": (
            "Ask row changes in SQL.",
            'replica-client sql "SELECT _change_type, count(*) FROM shop.orders GROUP BY 1" binlogs',
        ),
        "check": (
            "Check that files are whole.",
            "replica-client check /var/lib/mysql/binlog.0000*",
        ),
        "annotate": (
            "Explain each byte of an event.",
            "replica-client annotate binlog.000024 --position 276",
        ),
        "schema": ("Show what tables looked like, by position.", ""),
        "index": (
            "Make the indexes that find, history and stats use.",
            "replica-client index /backup/db1",
        ),
    },
    "Recover": {
        "backup": (
            "Copy a source's binlog files, byte for byte.",
            "replica-client backup mysql://repl@db1/ /backup/db1",
        ),
        "find": (
            "Find the changes of a row, a column, a table.",
            "replica-client find /backup/db1 --table shop.orders --key 42",
        ),
        "history": (
            "Show the life of one row.",
            "replica-client history /backup/db1 --table shop.orders --key 42",
        ),
        "stats": (
            "Show where the volume comes from.",
            "replica-client stats /backup/db1 --html stats.html",
        ),
        "as-of": (
            "Print a table as it was.",
            "replica-client as-of /backup/db1 --table shop.orders --at 0-1-9 --live mysql://db1/",
        ),
        "undo": (
            "Print SQL that takes changes back.",
            "replica-client undo /backup/db1 --table shop.orders --gtid 0-1-9",
        ),
        "redo": (
            "Print SQL that makes changes again.",
            "replica-client redo /backup/db1 --since binlog.000007:4",
        ),
        "recover": (
            "Bring a server to a moment, from a dump and an archive.",
            "replica-client recover /backup/db1 --dump shop.sql --before-drop shop.orders --to mysql://root@new/",
        ),
    },
    "Serve": {
        "run": (
            "Run the position-resume daemon.",
            "replica-client run --example > a.toml; replica-client run a.toml",
        ),
        "service": (
            "Look at the running daemon, pause and resume it.",
            "replica-client service pause shop.toml --sink lines",
        ),
        "snapshot": (
            "Ask the daemon for the rows of tables.",
            "replica-client snapshot shop.toml --sink lines --table shop.orders",
        ),
        "relay": (
            "Read a source's binlog once and serve it to replicas.",
            "replica-client relay --example > relay.toml; replica-client relay relay.toml",
        ),
        "serve": (
            "Serve binlog files over the replication protocol.",
            "replica-client serve binlog.000024 --port 3307",
        ),
    },
    "Lake": {
        "pipeline": ("Run the Spark pipeline.", "replica-client pipeline shop.toml"),
        "lake": ("Look after the tables of a pipeline's lake.", ""),
        "verify": ("Compare the lake with its source.", "replica-client verify shop.toml"),
    },
}
COMMANDS: Mapping[str, tuple[str, str]] = {
    name: texts for commands in _SECTIONS.values() for name, texts in commands.items()
}
# Commands in the module of another one; all others have one of their own name (`as_of` for `as-of`).
_MODULES = {
    "service": "orders",
    "history": "find",
    "index": "find",
    "redo": "undo",
    "relay": "run",
    "verify": "lake",
    "pipeline": "lake",
}


class _Sections(TyperGroup):
    """The command's help, with the subcommands by what they are for."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write each section."""
        for title, commands in _SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, short) for name, (short, _) in commands.items()])


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
    for name, (short, example) in COMMANDS.items():
        if name != only:
            app.command(name, short_help=short)(_not_imported)
            continue
        module = import_module(f"replica_client.cli.{_MODULES.get(name, name.replace('-', '_'))}")
        if not example:
            app.add_typer(module.app, name=name, short_help=short)
        else:
            add = app.command(name, cls=Command, short_help=short, epilog=f"Example:  {example}")
            add(getattr(module, name.replace("-", "_")))
    return app


def _not_imported() -> None:
    """Stands for a subcommand that was not asked for."""


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
