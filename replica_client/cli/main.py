"""The command ``replica-client``: its subcommands, and what every one of them has in common."""

from __future__ import annotations

import logging
import platform
import sys
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import Annotated, Any

import typer

from replica_client._compiled import compiled
from replica_client._version import __version__
from replica_client.cli.failures import (
    DONE,
    FAULTY,
    INTERRUPTED,
    WRONG_USAGE,
    FaultFoundError,
    exit_status,
    one_line,
)
from replica_client.cli.interruption import terminate_like_interrupt
from replica_client.cli.output import (
    Lines,
    discard_standard_output,
    message,
    prepare_standard_output,
)
from replica_client.cli.process_title import hide_passwords
from replica_client.errors import ReplicaClientError

PROGRAM = "replica-client"

# typer makes this of its own (or of click's, by its version): the base of every usage error.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]


def version_text() -> str:
    """The version, and which implementation of the hot modules runs."""
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


# Each is a module of this package of the same name, with a function of that name and an EXAMPLE.
_COMMANDS = {
    "events": "Every event.",
    "changes": "Row changes.",
    "check": "Whether files are whole.",
    "annotate": "What each byte of an event means.",
    "backup": "A byte-identical copy of a source's binlog files.",
    "doctor": "Whether a source can be followed.",
    "serve": "Binlog files over the real protocol.",
    "run": "The position-resume daemon.",
    "pipeline": "The Spark pipeline.",
    "verify": "Whether the lake equals its source.",
    "demo": "The main job on the embedded source.",
}
# Each is a module with commands of its own.
_GROUPS = {
    "schema": "What tables looked like, by position.",
    "position": "Saved positions.",
    "lake": "The tables of a pipeline's lake.",
}


def make_app(only: str = "") -> typer.Typer:
    """The command, with all its subcommands.

    Args:
        only: a subcommand: the others are left out, and not imported, so that it starts sooner.
    """
    app = typer.Typer(
        name=PROGRAM,
        help="Reads binlog files and live MySQL and MariaDB sources over the replication protocol.",
        epilog="SOURCE is a binlog path (or several), or a mysql:// or mariadb:// URL.",
        no_args_is_help=False,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_common)
    known = only in _COMMANDS or only in _GROUPS
    for name, short in _COMMANDS.items():
        if name == only or not known:
            module = _module(name)
            add = app.command(name, short_help=short, epilog=f"Example:  {module.EXAMPLE}")
            add(getattr(module, name))
    for name, short in _GROUPS.items():
        if name == only or not known:
            app.add_typer(_module(name).app, name=name, short_help=short)
    return app


def _module(name: str) -> ModuleType:
    return import_module(f"replica_client.cli.{name}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status.

    0 done, 1 the input or the source is faulty, 2 wrong usage, 130 interrupted.
    """
    hide_passwords()
    prepare_standard_output()
    terminate_like_interrupt()
    logging.basicConfig(level=logging.WARNING, format=f"{PROGRAM}: %(message)s")
    words = list(sys.argv[1:] if arguments is None else arguments)
    command = typer.main.get_command(make_app(words[0] if words else ""))
    try:
        status = command.main(words, prog_name=PROGRAM, standalone_mode=False)
        Lines().flush()
    except FaultFoundError as error:
        message(f"{PROGRAM}: {one_line(error)}")
        return FAULTY
    except BrokenPipeError:
        discard_standard_output()
        return FAULTY
    except (ReplicaClientError, OSError) as error:
        message(f"{PROGRAM}: {one_line(error)}")
        if isinstance(error, OSError):
            discard_standard_output()
        return exit_status(error)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except _UsageError as error:
        message(_usage_line(error))
        return WRONG_USAGE
    return status if isinstance(status, int) else DONE


def _usage_line(error: Any) -> str:
    context = getattr(error, "ctx", None)
    path = PROGRAM if context is None else str(context.command_path)
    text = " ".join(str(error.format_message()).split())
    return f"{path}: {text.rstrip('.')}; see '{path} --help'"
