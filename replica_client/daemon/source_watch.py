"""A periodic look at where a source's binlog ends, and at its clock."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable

from replica_client.codec.quick_dataclass import dataclass
from replica_client.errors import AccessDeniedError, ReplicaClientError
from replica_client.position.position import Position
from replica_client.readers.live.source_identity import missing_gtids
from replica_client.schema.versions import split_file_name
from replica_client.transport.connect_options import ConnectOptions
from replica_client.transport.connection import SourceConnection

_LOG = logging.getLogger("replica_client.daemon")


@dataclass(frozen=True, slots=True)
class SourceEnd:
    """The result of a look at a source.

    Attributes:
        file: current binlog file.
        offset: its size.
        gtids: executed GTIDs as text, empty without.
        sizes: bytes of each file, oldest first.
        clock_offset: the source's seconds since 1970 minus our monotonic clock.
        version: of the server.
        looked_at: seconds since 1970 when the look began, by this machine's clock.
        began: monotonic seconds at that moment.
    """

    file: str
    offset: int
    gtids: str
    sizes: dict[str, int]
    clock_offset: float
    version: str
    looked_at: float
    began: float

    def is_ahead_of(self, position: Position) -> bool:
        """Return whether the source had transactions after a position, as far as known."""
        if not self.bytes_behind(position):
            return False
        ours = position.gtid_set
        if ours is None or not self.gtids:
            return True
        # Events without a GTID are no changes, and another host of the source has other files.
        return bool(missing_gtids(type(ours).parse(self.gtids), ours))

    def bytes_behind(self, position: Position | None) -> int | None:
        """Return the bytes of binlog after a position; None if unknown.

        0 for a position in a file that is newer than this look.
        """
        if position is None:
            return None
        if position.file not in self.sizes:
            (base, number), (last_base, last) = map(split_file_name, (position.file, self.file))
            return 0 if base == last_base and number > last else None
        names = list(self.sizes)
        later = names[names.index(position.file) + 1 :]
        if position.file == self.file:
            return max(0, self.offset - position.offset)
        between = sum(self.sizes[name] for name in later if name != self.file)
        rest = max(0, self.sizes[position.file] - position.offset)
        return rest + between + self.offset


class SourceWatch:
    """A watch that asks a source periodically, on one connection.

    Args:
        name: of the source, for messages.
        hosts: how to connect; called at each connect.
        period: seconds between two looks.

    Attributes:
        end: the last answer.
        error: why there is none, empty when there is.
    """

    def __init__(self, name: str, hosts: Callable[[], list[ConnectOptions]], period: float) -> None:
        self.name = name
        self.period = period
        self.end: SourceEnd | None = None
        self.error = ""
        self._hosts = hosts
        self._connection: SourceConnection | None = None

    async def run(self) -> None:
        """Look periodically until cancelled."""
        try:
            while True:
                await self.look()
                await asyncio.sleep(self.period)
        finally:
            await self._close()

    async def look(self) -> None:
        """Look once; on an error keep its text and drop the last answer."""
        try:
            self.end = await self._ask()
            self.error = ""
        except ReplicaClientError as error:
            text = " ".join(str(error).split())
            if text != self.error:
                _LOG.debug("%s: cannot look where its binlog ends: %s", self.name, text)
            self.error, self.end = text, None
            await self._close()

    async def _ask(self) -> SourceEnd:
        if self._connection is None:
            hosts = await asyncio.to_thread(self._hosts)
            for host in hosts:
                try:
                    self._connection = await SourceConnection.open(host)
                    break
                except ReplicaClientError:
                    if host is hosts[-1]:
                        raise
        connection = self._connection
        assert connection is not None
        looked_at, began = time.time(), time.monotonic()
        rows = await connection.query("SELECT UNIX_TIMESTAMP(NOW(6))", columns=1, rows=1)
        offset = float(rows[0][0]) - time.monotonic()
        status = await connection.binlog_status()
        sizes: dict[str, int] = {}
        with contextlib.suppress(AccessDeniedError):
            sizes = dict(await connection.binary_logs())
        sizes[status.file] = status.position
        return SourceEnd(
            status.file,
            status.position,
            status.executed_gtid_set,
            sizes,
            offset,
            connection.server.version_text,
            looked_at,
            began,
        )

    async def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()
