"""The program: its name, its extras, its process title, its exit statuses and their errors."""

from __future__ import annotations

import errno
import importlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from replica_client.errors import (
    AccessDeniedError,
    BinlogDisabledError,
    ChecksumMismatchError,
    ConfigError,
    ConnectError,
    EncryptedBinlogError,
    MissingTableMapError,
    ReplicaClientError,
    TlsError,
    TruncatedEventError,
    UnknownBinlogError,
    install_command,
    secret_ranges,
    without_secrets,
)

DONE: Final = 0
FAULTY: Final = 1
WRONG_USAGE: Final = 2
NOT_CURRENT: Final = 3
"""With ``--strict``: a table of the lake is not current."""

INTERRUPTED: Final = 130
UNREAD: Final = 141
"""Nobody reads standard output any more: what a shell says of a process that SIGPIPE ended."""

# What to do, for errors whose own message does not say it.
_REMEDIES: tuple[tuple[type[Exception], str], ...] = (
    (ChecksumMismatchError, "the file is damaged: copy it again from the source"),
    (TruncatedEventError, "the file is cut, or still being written: copy it again from the source"),
    (MissingTableMapError, "start at the beginning of a transaction"),
    (EncryptedBinlogError, "give the server's key file with --key-file FILE"),
    (AccessDeniedError, "check user, password, host and the REPLICATION SLAVE privilege"),
    (BinlogDisabledError, "start the source with --log-bin and a --server-id"),
    (UnknownBinlogError, "see SHOW BINARY LOGS on the source for what there is"),
    (ConnectError, "check that the source runs, and its host and port"),
    (TlsError, "check the certificate, or the tls setting of the URL"),
    (FileNotFoundError, "check the path"),
    (PermissionError, "check who may read or write it"),
    (IsADirectoryError, "give a file"),
)


class FaultFoundError(ReplicaClientError):
    """A command did its work and found the input faulty; what it found was printed already."""


class MissingExtraError(ReplicaClientError):
    """A command needs packages that are not installed."""

    def __init__(self, module: str, extra: str) -> None:
        super().__init__(
            f"the Python package {module} is not installed; run: {install_command(extra)}"
        )


# Packages of Debian and Ubuntu, by the shared library in them.
_PACKAGES = {"libstdc++": "libstdc++6", "libgcc_s": "libgcc-s1", "libgomp": "libgomp1"}


class MissingLibraryError(ReplicaClientError):
    """A compiled Python package needs a shared library that the system lacks."""

    def __init__(self, error: ImportError) -> None:
        library = str(error).partition(":")[0]
        package = _PACKAGES.get(library.partition(".so")[0])
        remedy = f"; on Debian or Ubuntu run: apt-get install {package}" if package else ""
        super().__init__(
            f"an installed Python package needs the shared library {library}, which this system lacks{remedy}"
        )

    @staticmethod
    def is_meant(error: ImportError) -> bool:
        """Return whether the system's loader raised it, not Python: a library is missing, not a module."""
        return "cannot open shared object file" in str(error)


def exit_status(error: BaseException) -> int:
    """Return the exit status of an error."""
    return WRONG_USAGE if isinstance(error, ConfigError) else FAULTY


def one_line(error: BaseException) -> str:
    """Return what happened, where, and what to do, without passwords."""
    return without_secrets(_one_line(error))


def _one_line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        text = f"{os.fspath(error.filename)!s}: " if error.filename is not None else ""
        text += error.strerror
    else:
        text = str(error) or type(error).__name__
    text = " ".join(text.split())
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return f"{text}; free space, then start again"
    if ";" not in text:
        for kind, remedy in _REMEDIES:
            if isinstance(error, kind):
                return f"{text}; {remedy}"
    return text


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
