"""A DuckDB file that can be opened only for the time of a write.

DuckDB lets only one process write a file, and no other process can open the file meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import duckdb

from replica_client.errors import SinkError

_LOCKED: Final = "Could not set lock on file"
_STEP: Final = 0.02


class DuckdbFile:
    """A DuckDB file whose connection is opened on demand.

    Args:
        connect: opens the file.
        where: the file, for messages.
        wait: seconds to wait until another process closes the file.
    """

    def __init__(
        self, connect: Callable[[], duckdb.DuckDBPyConnection], where: str, wait: float
    ) -> None:
        self._connect, self._where, self._wait = connect, where, wait
        self._open: duckdb.DuckDBPyConnection | None = None

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """The open connection; opened if needed.

        Raises:
            SinkError: another process still has the file open.
        """
        deadline = time.monotonic() + self._wait
        while self._open is None:
            try:
                self._open = self._connect()
            except duckdb.IOException as error:
                if _LOCKED not in str(error):
                    raise
                if time.monotonic() > deadline:
                    raise SinkError(
                        f"{self._where}: another process has had the file open for {self._wait:g} s; it must close "
                        "it before changes can be written",
                        retriable=True,
                    ) from error
                time.sleep(_STEP)
        return self._open

    def close(self) -> None:
        """Close the connection. Uncommitted changes are lost."""
        connection, self._open = self._open, None
        if connection is not None:
            connection.close()
