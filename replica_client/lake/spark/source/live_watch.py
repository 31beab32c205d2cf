"""Waits until a source's binlog goes on: a dump at its end, of which only headers are looked at."""

from __future__ import annotations

import asyncio

from replica_client.errors import ConnectionLostError, ServerError, TransportError
from replica_client.lake.source_options import SourceOptions
from replica_client.lake.spark.source.live_partition import server_id
from replica_client.protocol.binlog.event import FIRST_EVENT
from replica_client.protocol.binlog.layout import HEADER_SIZE
from replica_client.protocol.constants.event_types import EventFlag, EventType
from replica_client.protocol.position import Position
from replica_client.stream.transport.connection import DEFAULT_HEARTBEAT_PERIOD
from replica_client.stream.transport.driver_dump import open_dump
from replica_client.stream.transport.dump import DumpStream
from replica_client.stream.transport.request import DumpRequest

_MAX_BEHIND = 1 << 20
_ROTATE = int(EventType.ROTATE_EVENT)
_ARTIFICIAL = int(EventFlag.LOG_EVENT_ARTIFICIAL_F)
_HEARTBEATS = (
    int(EventType.HEARTBEAT_LOG_EVENT),
    int(EventType.HEARTBEAT_LOG_EVENT_V2),
)


class LiveWatch:
    """A dump that stays open while nothing happens, and afterwards as long as it can follow.

    Args:
        options: of the query.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._dump: DumpStream | None = None
        self._file = ""
        self._offset = 0

    async def close(self) -> None:
        """End the dump."""
        dump, self._dump = self._dump, None
        if dump is not None:
            await dump.close()

    async def wait(self, end: Position, seconds: float) -> bool:
        """Wait until there is an event after ``end``.

        Returns:
            True when there is one, or the dump was lost; False when the time is over.
        """
        try:
            if self._dump is None or not self._is_near(end):
                await self.close()
                self._dump = await self._open(end)
                self._file, self._offset = end.file, end.offset
            return await self._passes(self._dump, end, seconds)
        except (TransportError, ServerError):
            # The next query raises the error; without an error the caller polls.
            await self.close()
            await asyncio.sleep(min(seconds, self._options.poll_interval))
            return True

    def _is_near(self, end: Position) -> bool:
        return self._file == end.file and end.offset - self._offset <= _MAX_BEHIND

    async def _open(self, end: Position) -> DumpStream:
        assert self._options.connect is not None
        return await open_dump(
            self._options.connect,
            DumpRequest(end.file, max(end.offset, FIRST_EVENT)),
            server_id=server_id(self._options, 0),
            heartbeat_period=self._options.following.get(
                "heartbeat_period", DEFAULT_HEARTBEAT_PERIOD
            ),
        )

    async def _passes(self, dump: DumpStream, end: Position, seconds: float) -> bool:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while True:
            while dump.events:
                self._see(dump.events.event(0))
                dump.events.drop(1)
            if Position(self._file, self._offset) > end:
                return True
            left = deadline - loop.time()
            if left <= 0:
                return False
            try:
                async with asyncio.timeout(left):
                    if not await dump.more(0):
                        raise ConnectionLostError("the source ended the dump")
            except TimeoutError:
                return False

    def _see(self, data: bytes) -> None:
        code, flags = data[4], data[17]
        if code in _HEARTBEATS:
            return
        if code == _ROTATE:
            # The file that follows is named in clear after the offset.
            name = data[HEADER_SIZE + 8 :]
            if flags & _ARTIFICIAL and not name.startswith(self._file.encode()):
                self._file, self._offset = name.decode("utf-8", "replace"), FIRST_EVENT
            return
        reached = int.from_bytes(data[13:17], "little")
        if reached and not flags & _ARTIFICIAL:
            # 32 bits of it: the offset goes forward by less than half of them.
            forward = (reached - self._offset) & 0xFFFFFFFF
            if forward < 1 << 31:
                self._offset += forward
