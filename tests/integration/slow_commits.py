"""A source whose commits take their time: a semi-synchronous replica acknowledges each only after a while.

MySQL writes a transaction to the binlog, sends it, and commits it in the engine last. What lies between is
microseconds on a quiet server; here it is as long as the replica wants, for several sessions at once.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pymysql

from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.events import RotateEvent
from replica_client.protocol.constants.event_types import EventType
from replica_client.stream.transport.connect_options import parse_url
from replica_client.stream.transport.connection import SourceConnection
from replica_client.stream.transport.dump import DumpRequest, DumpStream
from tests.servers.local import LocalServer

_SERVER_ID = 900_107


@contextmanager
def slow_commits(server: LocalServer, seconds: float) -> Iterator[None]:
    """While it lasts, each commit waits for an acknowledgement, which comes after so many seconds.

    Args:
        server: MySQL 8 and later, or MariaDB.
        seconds: between a transaction's arrival at the replica and its acknowledgement.
    """
    if server.flavor == "mariadb":
        kind = "master"
        server.execute("SET GLOBAL rpl_semi_sync_master_wait_point = AFTER_SYNC")
    else:
        kind = "source"
        with suppress(pymysql.err.OperationalError):  # it is there
            server.execute("INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'")
    server.execute(f"SET GLOBAL rpl_semi_sync_{kind}_timeout = 600000")
    file, position = server.binlog_position()
    server.execute(f"SET GLOBAL rpl_semi_sync_{kind}_enabled = ON")
    end = f"SET GLOBAL rpl_semi_sync_{kind}_enabled = OFF"
    replica = _SlowReplica(server, file, position, seconds, end)
    replica.start()
    try:
        yield
    finally:
        server.execute(end)
        replica.halt()
    if replica.error is not None:
        raise replica.error


class _SlowReplica(threading.Thread):
    def __init__(
        self, server: LocalServer, file: str, position: int, seconds: float, end: str
    ) -> None:
        super().__init__(daemon=True)
        self._server, self._url, self._seconds, self._end = server, server.url(), seconds, end
        self._request = DumpRequest(file, position)
        self._loop = asyncio.new_event_loop()
        self._reading: asyncio.Task[None] | None = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self._loop.run_until_complete(self._follow())
        except BaseException as error:
            self.error = error
            with self._server.connect(autocommit=True) as connection, connection.cursor() as cursor:
                cursor.execute(self._end)  # else every commit waits for ever
        finally:
            self._loop.close()

    def halt(self) -> None:
        """End it; its commits wait no longer."""
        if self._reading is not None and self.is_alive():
            with suppress(RuntimeError):  # it ends just now
                self._loop.call_soon_threadsafe(self._reading.cancel)
        self.join(60)

    async def _follow(self) -> None:
        self._reading = asyncio.current_task()
        connection = await SourceConnection.open(parse_url(self._url))
        dump = await connection.start_dump(self._request, server_id=_SERVER_ID, semi_sync=True)
        try:
            async with dump, asyncio.TaskGroup() as group:
                file, decoder = self._request.file, BinlogDecoder()
                while events := await dump.read():
                    end = 0
                    for data in events:
                        event = decoder.decode(data, 0, file)
                        if isinstance(event.body, RotateEvent):
                            file, end = event.body.next_file, 0
                        elif event.header.type_code != EventType.HEARTBEAT_LOG_EVENT:
                            end = event.header.next_position
                    if end:
                        group.create_task(self._acknowledge(dump, file, end))
        except asyncio.CancelledError:
            pass

    async def _acknowledge(self, dump: DumpStream, file: str, end: int) -> None:
        await asyncio.sleep(self._seconds)
        await dump.acknowledge_semi_sync(file, end)
