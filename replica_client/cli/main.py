"""The command ``replica-client``: its subcommands, and what every one of them has in common."""

from __future__ import annotations

import logging
import platform
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from replica_client._compiled import compiled
from replica_client._version import __version__
from replica_client.cli import (
    annotate,
    backup,
    changes,
    check,
    demo,
    doctor,
    events,
    pipeline,
    run,
    schema,
    serve,
)
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
from replica_client.errors import ReplicaClientError

PROGRAM = "replica-client"

# typer makes this of its own (or of click's, by its version): the base of every usage error.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]

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


def version_text() -> str:
    """The version, and which implementation of the hot modules runs."""
    form = "compiled" if compiled() else "pure Python"
    return f"{PROGRAM} {__version__} ({form}, Python {platform.python_version()})"


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(version_text())
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and exit.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Options before the subcommand."""


_COMMANDS: tuple[tuple[Callable[..., Any], str, str], ...] = (
    (events.events, "Every event.", events.EXAMPLE),
    (changes.changes, "Row changes.", changes.EXAMPLE),
    (check.check, "Whether files are whole.", check.EXAMPLE),
    (annotate.annotate, "What each byte of an event means.", annotate.EXAMPLE),
    (backup.backup, "A byte-identical copy of a source's binlog files.", backup.EXAMPLE),
    (doctor.doctor, "Whether a source can be followed.", doctor.EXAMPLE),
    (serve.serve, "Binlog files over the real protocol.", serve.EXAMPLE),
    (run.run, "The position-resume daemon.", run.EXAMPLE),
    (pipeline.pipeline, "The Spark pipeline.", pipeline.EXAMPLE),
    (demo.demo, "The main job on the embedded source.", demo.EXAMPLE),
)
for _function, _short, _example in _COMMANDS:
    app.command(short_help=_short, epilog=f"Example:  {_example}")(_function)
app.add_typer(schema.app, name="schema", short_help="What tables looked like, by position.")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status.

    0 done, 1 the input or the source is faulty, 2 wrong usage, 130 interrupted.
    """
    prepare_standard_output()
    terminate_like_interrupt()
    logging.basicConfig(level=logging.WARNING, format=f"{PROGRAM}: %(message)s")
    words = list(sys.argv[1:] if arguments is None else arguments)
    command = typer.main.get_command(app)
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
