"""Reading back from the source of XA transactions that were prepared before a stream began."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing

from replica_client.binlog.file_scan import FIRST_EVENT
from replica_client.binlog.options import DecodeOptions
from replica_client.errors import AccessDeniedError, BinlogReadError
from replica_client.gtid import GtidSet
from replica_client.position.position import Position
from replica_client.position.prepared import PreparedTransaction, XaId
from replica_client.readers.event_feed import EventFeed, LocatedEvent
from replica_client.readers.prepared_rows import passes_over
from replica_client.schema.versions import file_order
from replica_client.transport.connect_options import ConnectOptions
from replica_client.transport.connection import SourceConnection
from replica_client.transport.request import DumpRequest
from replica_client.transport.side_dump import open_dump
from replica_client.transport.source_gtids import executed_gtids

_LOG = logging.getLogger("replica_client")


class PreparedSource:
    """Finder and reader of prepared transactions on a source, each on its own connection.

    Args:
        options: of the source.
        decode: how events are decoded.
    """

    def __init__(self, options: ConnectOptions, decode: DecodeOptions) -> None:
        self._options = options
        self._decode = decode

    async def transaction(
        self, xid: XaId, known: PreparedTransaction | None, commit: Position
    ) -> AsyncGenerator[tuple[EventFeed, LocatedEvent], None]:
        """Yield the events of the transaction that an XA PREPARE ends; none if it cannot be found.

        Args:
            xid: id of the transaction.
            known: its place, as far as known.
            commit: start of the transaction of its XA COMMIT.

        Raises:
            TransportError: a connection failed; a retry may help.
            ServerError: the source ended the dump; another connection may work.
            BinlogDecodeError: an event cannot be decoded.
        """
        request: DumpRequest | None = None
        if known is not None and known.start.file:
            request = DumpRequest(known.start.file, known.start.offset, non_block=True)
        elif known is not None and known.gtid:
            request = await self._by_gtid(known.gtid)
        if request is None:
            start = await self._find(xid, commit)
            if start is None:
                return
            request = DumpRequest(start.file, start.offset, non_block=True)
        feed = EventFeed(self._decode, Position(request.file, request.position))
        try:
            async with aclosing(self._packets(request)) as packets:
                async for data in packets:
                    for located in feed.feed_stream(data):
                        if feed.tracker.in_transaction or located.boundary is not None:
                            yield feed, located
                        if located.boundary is not None:
                            return
        except BinlogReadError as error:
            _LOG.warning("XA transaction %s cannot be read back: %s", xid, error)

    async def _by_gtid(self, gtid: str) -> DumpRequest | None:
        """Return a request for a dump that begins with one GTID; None if that is impossible."""
        async with await SourceConnection.open(self._options) as connection:
            if connection.server.is_mariadb:
                return None  # its positions hold the last GTID of a domain, but not the one before
            executed = await executed_gtids(connection)
        wanted = GtidSet.parse(gtid)
        if not isinstance(executed, GtidSet) or not wanted <= executed:
            return None
        return DumpRequest(gtid_set=executed - wanted, non_block=True)

    async def _find(self, xid: XaId, commit: Position) -> Position | None:
        """Find the start of the transaction with the last XA PREPARE of an xid before a position."""
        async with await SourceConnection.open(self._options) as connection:
            try:
                names = [name for name, _ in await connection.binary_logs()]
            except AccessDeniedError:
                names = [commit.file]
        limit = file_order(commit.file)
        for file in reversed([name for name in names if file_order(name) <= limit]):
            _LOG.warning("looking for the XA PREPARE of %s in %s of the source", xid, file)
            try:
                found = await self._find_in(file, xid, commit)
            except BinlogReadError as error:
                _LOG.warning("XA transaction %s cannot be looked for in %s: %s", xid, file, error)
                return None
            if found is not None:
                return found
        return None

    async def _find_in(self, file: str, xid: XaId, commit: Position) -> Position | None:
        feed = EventFeed(self._decode, Position(file, FIRST_EVENT))
        tracker, found = feed.tracker, None
        request = DumpRequest(file, FIRST_EVENT, non_block=True)
        async with aclosing(self._packets(request)) as packets:
            async for data in packets:
                if passes_over(tracker, data):
                    continue
                for located in feed.feed_stream(data):
                    boundary = located.boundary
                    if boundary is not None and boundary.outcome == "prepare":
                        if XaId.of_event(located.event.body) == xid:
                            found = Position(boundary.file, boundary.offset)
                if tracker.file != file or Position(file, tracker.offset) >= commit:
                    break
        return found

    async def _packets(self, request: DumpRequest) -> AsyncGenerator[bytes, None]:
        """Yield the events of a dump, each as bytes."""
        async with await open_dump(self._options, request) as dump:
            async for data in dump:
                yield data
