"""The command ``replica-client``: its exit status, whatever happens."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from replica_client.cli.interruption import end_at_once, runs_the_daemon, terminate_like_interrupt
from replica_client.cli.output import (
    Lines,
    discard_standard_output,
    message,
    prepare_standard_output,
    wrapped,
)
from replica_client.cli.program import (
    DONE,
    FAULTY,
    INTERRUPTED,
    PROGRAM,
    UNREAD,
    FaultFoundError,
    MissingLibraryError,
    exit_status,
    extra_module,
    hide_passwords,
    one_line,
)
from replica_client.cli.start import collect_from_here
from replica_client.errors import ReplicaClientError
from replica_client.options import Surface, options_of
from replica_client.service.process import LineFormatter


class _TerminalFormatter(LineFormatter):
    """Warnings as messages are shown."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the text of a record."""
        return wrapped(super().format(record))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status.

    0 done, 1 the input or the source is faulty, 2 wrong usage, 3 with ``--strict`` a table of the
    lake is not current, 130 interrupted, 141 nobody reads the output any more.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if runs_the_daemon(words):
        end_at_once(0)
    else:
        terminate_like_interrupt()
    hide_passwords()
    prepare_standard_output()
    handler = logging.StreamHandler()
    handler.setFormatter(_TerminalFormatter(f"{PROGRAM}: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    try:
        status = _run(words)
        Lines().flush()
    except FaultFoundError as error:
        message(f"{PROGRAM}: {one_line(error)}")
        return FAULTY
    except BrokenPipeError:
        discard_standard_output()
        return UNREAD
    except ImportError as error:
        if not MissingLibraryError.is_meant(error):
            raise
        message(f"{PROGRAM}: {one_line(MissingLibraryError(error))}")
        return FAULTY
    except (ReplicaClientError, OSError) as error:
        message(f"{PROGRAM}: {one_line(error)}")
        if isinstance(error, OSError):
            discard_standard_output()
        return exit_status(error)
    except KeyboardInterrupt:
        return INTERRUPTED
    return status


_SURFACES: dict[str, Surface] = {
    "run": "service",
    "relay": "relay",
    "pipeline": "pipeline",
}
"""The commands whose options are in a configuration file."""


def _run(words: list[str]) -> int:
    if len(words) == 2 and words[0] == "run" and not words[1].startswith("-"):
        # A daemon is to be back soon after a crash: what reads arguments takes long to import.
        from replica_client.cli.run import serve

        collect_from_here()
        with options_of("service"):
            serve(Path(words[1]))
        return DONE
    from replica_client.cli.plain_words import run_plain

    with options_of("flag"):
        if run_plain(words):
            return DONE
    app = extra_module("replica_client.cli.app", "cli")
    collect_from_here()
    with options_of(_SURFACES.get(words[0], "flag") if words else "flag"):
        return int(app.run_words(words))
