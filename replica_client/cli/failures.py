"""Errors as users see them: one line of what, where and what to do, and an exit status."""

from __future__ import annotations

import errno
import os
from typing import Final

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
