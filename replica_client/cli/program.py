"""The program: its name, its extras, and its process title."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from replica_client.cli.failures import MissingExtraError
from replica_client.errors import secret_ranges

PROGRAM: Final = "replica-client"


def extra_module(name: str, extra: str) -> Any:
    """Import a module of this package that needs an extra.

    Raises:
        MissingExtraError: a package of the extra is not installed.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = (error.name or "").split(".")[0]
        if not missing or missing == "replica_client":
            raise
        raise MissingExtraError(missing, extra) from error


_PROCESS = Path("/proc/self")
# Fields 48 and 49 of proc_pid_stat(5), counted after the program's name, which may contain blanks.
_ARG_START, _ARG_END = 45, 46


def secrets_in(command_line: bytes) -> Iterator[tuple[int, int]]:
    """Where passwords begin and end in NUL-ended arguments: those in URLs, and in their options."""
    yield from secret_ranges(command_line.decode("latin-1"))


def hide_passwords() -> None:
    """Overwrite the passwords in this process's own command line with ``x``.

    Where the system shows it to others: on Linux. They can be seen until then, a tenth of a second; who
    minds takes an option file or the environment.
    """
    try:
        fields = (_PROCESS / "stat").read_text().rpartition(")")[2].split()
        start, end = int(fields[_ARG_START]), int(fields[_ARG_END])
        command_line = (_PROCESS / "cmdline").read_bytes()
    except (OSError, ValueError, IndexError):
        return
    if not start or len(command_line) != end - start:
        return
    for first, last in secrets_in(command_line):
        import ctypes  # most command lines have no password

        ctypes.memset(start + first, ord("x"), last - first)
