"""The source's system variables, for a relay's clients."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from replica_client.errors import ReplicaClientError
from replica_client.storage.durable import replace_file
from replica_client.transport.connect_options import ConnectOptions
from replica_client.transport.connection import SourceConnection
from replica_client.wire.resultset import Value

_LOG = logging.getLogger("replica_client.relay")

_NAME: Final = "source_variables.json"
_FRESH_SECONDS: Final = 10.0
_PATIENCE: Final = 3.0
_MOST_ROWS: Final = 5000
_MAX_VALUE: Final = 64 << 10


class SourceVariables:
    """A cache of ``SHOW GLOBAL VARIABLES``, kept in a file for when the source is unavailable.

    Args:
        directory: of the relay.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / _NAME
        self._asked = -_FRESH_SECONDS
        self._asking = asyncio.Lock()
        self._known = self._load()

    def _load(self) -> dict[str, Value] | None:
        try:
            document = json.loads(self._path.read_text(encoding="utf-8"))
            return {str(name): value for name, value in document.items()}
        except FileNotFoundError:
            return None
        except (OSError, ValueError, AttributeError) as error:
            _LOG.warning("%s cannot be read, and is written again: %s", self._path, error)
            return None

    async def ask(self, connection: SourceConnection) -> None:
        """Ask a connected source.

        Raises:
            ServerError: it refuses.
            TransportError: the connection was lost.
        """
        rows = await connection.query("SHOW GLOBAL VARIABLES", columns=2)
        found: dict[str, Value] = {
            str(name).lower(): str(value)[:_MAX_VALUE] for name, value, *_ in rows[:_MOST_ROWS]
        }
        self._asked = time.monotonic()
        if found == self._known:
            return
        self._known = found
        text = json.dumps(found, ensure_ascii=False, indent=1)
        try:
            await asyncio.to_thread(replace_file, self._path, text.encode())
        except OSError as error:
            _LOG.warning("%s: %s", self._path, error.strerror or error)

    async def current(self, source: ConnectOptions | None) -> Mapping[str, Value] | None:
        """Return the variables, refreshed if they are older than ten seconds.

        Without a source, or if it does not answer in time, return the last known ones.
        """
        if source is None or time.monotonic() - self._asked < _FRESH_SECONDS:
            return self._known
        async with self._asking:
            if time.monotonic() - self._asked >= _FRESH_SECONDS:
                self._asked = time.monotonic()
                try:
                    async with asyncio.timeout(_PATIENCE):
                        connection = await SourceConnection.open(source)
                        async with connection:
                            await self.ask(connection)
                except (ReplicaClientError, TimeoutError) as error:
                    _LOG.warning("the source's variables could not be asked again: %s", error)
        return self._known
