"""The sender of a dump: files, artificial events between them, heartbeats at the end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Final

from replica_client.errors import ReplicaClientError
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.encoder import encode_event
from replica_client.protocol.binlog.event import FIRST_EVENT, BinlogEvent, BinlogFormat, EventHeader
from replica_client.protocol.binlog.events import HeartbeatEvent, HeartbeatV2Event, RotateEvent
from replica_client.protocol.binlog.events.gtids import FLAG_UNTIL_REACHED
from replica_client.protocol.binlog.layout import HEADER_SIZE, TYPE_OFFSET
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.protocol.constants.event_types import ChecksumAlgorithm, EventFlag, EventType
from replica_client.protocol.gtid import Gtid, GtidSet, MariadbGtid, MariadbGtidSet, MariadbSkip
from replica_client.protocol.wire.framing import MAX_PIECE_SIZE, SEMI_SYNC_MAGIC
from replica_client.protocol.wire.packets import EofPacket
from replica_client.server.budget import SLICE_SECONDS, SessionBudget
from replica_client.server.dump_start import DumpOrder, find_start, joined
from replica_client.server.packet_output import Output
from replica_client.server.served_files import ServedFile
from replica_client.server.served_library import BinlogLibrary, fatal, gtid_list, make_event
from replica_client.server.transactions import GTID_TYPES, LOOKED_AT_TYPES, GtidUntil
from replica_client.stream.transport.server_statements import parse_version

_PIECE_SIZE: Final = 256 << 10
_LARGE: Final = 1 << 20
"""Bytes above which an event is sent in pieces instead of as a whole."""


class DumpSender:
    """One dump.

    Attributes:
        file: the current file; None before the first.
        position: the position up to which the file was sent or skipped.
        budget: of the session: events are processed in its account's turn; None: without a budget.
    """

    sends_chunks = True
    """Whether many events may be framed at once; a testing source handles each alone."""

    def __init__(self, library: BinlogLibrary, order: DumpOrder, output: Output) -> None:
        self._library = library
        self._order = order
        self._output = output
        self.file: ServedFile | None = None
        self.position = 0
        self._have = order.gtid_set
        self._has_passed = order.gtid_set is None
        self._skipping = False
        self._skipped_to: int | None = None
        self._state = MariadbGtidSet()
        self._skip: MariadbSkip | None = None
        self._until: GtidUntil | None = None
        if order.until is not None and isinstance(order.gtid_set, MariadbGtidSet):
            self._until = GtidUntil(order.until, order.gtid_set, before=order.until_before)
        self._checksums = order.checksum is ChecksumAlgorithm.CRC32
        self._growth = asyncio.Event()
        self._at_end: ServedFile | None = None
        self._last_sent = 0.0
        self.budget: SessionBudget | None = None

    async def run(self) -> None:
        """Send the files until their end (non_block), or for ever.

        Raises:
            ServerError: the order cannot be served.
        """
        async with self._turn():
            find = find_start if self.budget is None else partial(self.budget.timed, find_start)
            file, position, before = find(self._library, self._order)
        if before is not None:
            self._state = before
        self._output.begin_direct()
        self._library.subscribe(self._grew)
        try:
            await self._run(file, position)
        finally:
            self._library.unsubscribe(self._grew)
            self._output.end_direct()

    async def _run(self, file: ServedFile, position: int) -> None:
        first = True
        while True:
            self._check_checksum(file)
            self._rotate_to(file, position)
            from_start = position == FIRST_EVENT
            keep_created = from_start and not (first and self._clears_created())
            if from_start:
                self._before(file, position, len(file.description))
            self._send(file.sent_description(from_start, keep_created), file)
            self._checksums = bool(file.format.checksum_size)
            if from_start:
                position += len(file.description)
            elif first and isinstance(self._order.gtid_set, MariadbGtidSet):
                if not self._order.gtid_set:
                    self._gtid_list(file, position)
            first = False
            self.file, self.position = file, position
            async with file.present():
                if not self._is_reached:
                    position = await self._send_file(file, position)
                if self._until is not None and self._until.reached:
                    self._gtid_list(file, position, self._until.until, FLAG_UNTIL_REACHED)
                    break
                following = self._library.after(file)
                if following is None:
                    break
                if following.series != file.series and not self._order.copies:
                    # Another server's files: they begin with transactions that were already sent.
                    await file.transactions.count()
                    self._have = joined(self._have, file.executed())
                    self._has_passed, self._skip = False, None
                    if isinstance(following.previous, MariadbGtidSet):
                        self._state = following.previous
            file, position = following, FIRST_EVENT
        self._output.packet(EofPacket().encode())
        await self._output.flush()

    def _clears_created(self) -> bool:
        """Return whether to clear the creation time: MySQL >= 5.7 does for a replica with GTIDs."""
        have = self._order.gtid_set
        new = parse_version(self._library.server_version) >= (5, 7, 0)
        return isinstance(have, GtidSet) and bool(have) and new

    def _check_checksum(self, file: ServedFile) -> None:
        if file.format.checksum_size and self._order.checksum is None:
            raise fatal(
                "Replica can not handle replication events with the checksum that source is "
                "configured to log"
            )

    # Events.

    async def _send_file(self, file: ServedFile, position: int) -> int:
        if position < file.size and file.header_at(position) is None:
            head = file.read(position, HEADER_SIZE)
            raise fatal(f"bogus data in log event at {position}: {head[:8].hex()}")
        self._skipping = False
        if not self._sends_all(file) and self._have is not None and position <= file.head_size:
            position = await self._pass_over(file, position, self._have)
        while True:
            self._growth.clear()
            if self._sends_all(file):
                position = await self._send_chunks(file, position)
            else:
                position = await self._send_events(file, position)
            if self._is_reached:
                return position
            if self._library.after(file) is not None or self._order.non_block:
                if file.header_at(position) is not None:
                    continue  # it grew, and then the next one came
                self._end_of_skip(file, file.size)
                return position
            self._end_of_skip(file, position)
            position = await self._wait(file, position)

    def _sends_all(self, file: ServedFile) -> bool:
        """Return whether every event of a file is sent unchanged from here on."""
        order = self._order
        if (
            self._until is not None
            or order.semi_sync
            or not (order.annotate_rows or file.flavor is ServerFlavor.MYSQL)
        ):
            return False
        if self._skipping or self._skipped_to is not None or not self.sends_chunks:
            return False
        if not self._has_passed:
            have, before = self._have, file.previous
            if isinstance(have, GtidSet):
                self._has_passed = isinstance(before, GtidSet) and have <= before
            elif isinstance(have, MariadbGtidSet):
                self._has_passed = isinstance(before, MariadbGtidSet) and have <= before
        return self._has_passed

    async def _send_chunks(self, file: ServedFile, position: int) -> int:
        """Send the events up to the file's end from buffers that all clients share."""
        chunks, output = self._library.chunks, self._output
        await output.flush()
        while True:
            chunk = chunks.get(file, position, output.sequence)
            if chunk.size:
                output.sequence = chunk.sequence
                position += chunk.size
                await output.send(chunk.packets)
            else:
                header = file.header_at(position)
                if header is None:
                    return position
                await self._send_large(file, position, header.event_size)
                position += header.event_size
            self.position = position
            await asyncio.sleep(0)  # a client that reads fast must not starve the others

    async def _send_large(self, file: ServedFile, position: int, size: int) -> None:
        """Send an event larger than a chunk in pieces, so that it is never in memory as a whole."""
        output = self._output
        head = bytes((0, SEMI_SYNC_MAGIC, 0)) if self._order.semi_sync else b"\0"
        payload, at = size + len(head), 0
        while True:
            end = min(payload, at + MAX_PIECE_SIZE)
            output.start_packet(end - at)
            whole = end - at == MAX_PIECE_SIZE
            if not at:
                output.raw(head)
                at = len(head)
            while at < end:
                piece = file.read(position + at - len(head), min(_PIECE_SIZE, end - at))
                if not piece:
                    raise ConnectionAbortedError("the file is shorter than it was")
                output.raw(piece)
                at += len(piece)
                await output.flush()
            if not whole:
                await output.flush()
                return

    # At the end of the last file.

    def _grew(self) -> None:
        """Send new events at once if the dump waits at the end; otherwise wake it."""
        file = self._at_end
        if file is None or not self._push(file):
            self._growth.set()

    def _push(self, file: ServedFile) -> bool:
        """Send the new events of the last file; return False if the dump's task must do more."""
        output, chunks = self._output, self._library.chunks
        if file is not self._library.files[-1] or output.pending_size:
            return False
        try:
            while self.position < file.size:
                chunk = chunks.get(file, self.position, output.sequence)
                if not chunk.size:
                    return False
                output.sequence = chunk.sequence
                self.position += chunk.size
                self._last_sent = asyncio.get_running_loop().time()
                if not output.send_now(chunk.packets):
                    return False
        except (OSError, ReplicaClientError):
            return False  # the dump's task runs into the same error and reports it
        return True

    async def _wait(self, file: ServedFile, position: int) -> int:
        """Wait until the file grows, and send heartbeats; return the position sent up to."""
        await self._output.flush()
        self.position = position
        loop = asyncio.get_running_loop()
        period = self._order.heartbeat_period
        self._last_sent = loop.time()
        if self._output.is_direct and self._sends_all(file):
            self._at_end = file
        try:
            while not self._growth.is_set():
                try:
                    async with asyncio.timeout_at(self._last_sent + period if period else None):
                        await self._growth.wait()
                except TimeoutError:
                    if loop.time() < self._last_sent + period:
                        continue
                    if file.header_at(self.position) is not None:
                        break  # a heartbeat would name a position before this event
                    self._idle(file, self.position)
                    self._last_sent = loop.time()
                    await self._output.flush()
        finally:
            self._at_end = None
        return self.position

    def _idle(self, file: ServedFile, position: int) -> None:
        """Queue a heartbeat.

        A client follows a ROTATE event at once, even if the next file is not here yet. A heartbeat
        that names another file than the client's stops a MySQL replica for good (MY-013118).
        """
        following = file.next_file
        if following is None:
            self._heartbeat(file, position)
        else:
            self._heartbeat(file, FIRST_EVENT, following)

    async def _pass_over(
        self, file: ServedFile, position: int, have: GtidSet | MariadbGtidSet
    ) -> int:
        """Skip transactions of a file that the client has; return the position after them."""
        async with self._turn():
            start, before = await file.transactions.first_for(have)
        if start <= file.head_size or before is None:
            return position
        while position < file.head_size:
            header = file.header_at(position)
            if header is None:
                break
            self._before(file, position, header.event_size)
            self._send(file.read(position, header.event_size), file)
            position += header.event_size
        if isinstance(before, MariadbGtidSet):
            self._state = before
        self._skipped_to = start
        return start

    async def _send_events(self, file: ServedFile, position: int) -> int:
        """Send the events that the client lacks."""
        while True:
            if size := self._large_event(file, position):
                if self._skipping:
                    self._skipped_to = position + size
                else:
                    self._end_of_skip(file, position)
                    await self._send_large(file, position, size)
                position += size
                continue
            async with self._turn():
                before, position = position, self._queue_events(file, position)
            if self._is_reached:
                return position
            if position == before:
                break
            if self._output.pending_size >= self._output.chunk_size:
                await self._output.flush()
                self.position = position
        have = self._have
        if have is not None and not self._has_passed:
            await file.transactions.count(position)
            self._has_passed = file.transactions.all_counted_are_before(position, have)
        return position

    def _large_event(self, file: ServedFile, position: int) -> int:
        """Return the size of an event that must not be in memory as a whole; 0 for others."""
        header = file.header_at(position)
        if header is None or header.event_size <= _LARGE or not self.sends_chunks:
            return 0
        return (
            0
            if self._until is not None or header.type_code in LOOKED_AT_TYPES
            else header.event_size
        )

    def _queue_events(self, file: ServedFile, position: int) -> int:
        """Queue events of one piece for one slice of time; return the position after them."""
        piece, at = self._piece(file, position), 0
        end = time.perf_counter() + SLICE_SECONDS
        while at + HEADER_SIZE <= len(piece) and at + file.event_size(piece, at) <= len(piece):
            size = file.event_size(piece, at)
            self._send_event(file, position + at, piece[at : at + size])
            at += size
            full = self._output.pending_size >= self._output.chunk_size
            if self._is_reached or full or time.perf_counter() >= end:
                break
        return position + at

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """Hold the account's turn for a slice of work, if the sender has a budget."""
        await asyncio.sleep(0)  # a client that reads fast must not starve the others
        if self.budget is None:
            yield
            return
        async with self.budget.account.turn:
            yield

    def _piece(self, file: ServedFile, position: int) -> bytes:
        """Return bytes from a position on, at least one whole event; empty if none is there."""
        header = file.header_at(position)
        if header is None:
            return b""
        return file.read(position, max(self._output.chunk_size, header.event_size))

    def _send_event(self, file: ServedFile, position: int, event: bytes) -> None:
        """Send an event, or skip it if the client has or excludes it."""
        code = event[TYPE_OFFSET]
        if code in GTID_TYPES:
            known = self._has_passed and self._until is None
            gtid = None if known else file.gtid_of(event)
            self._skipping = gtid is not None and self._has(gtid)
            if isinstance(gtid, MariadbGtid):
                if self._skipping:
                    self._state = self._state.add(gtid)
                elif self._until is not None:
                    self._skipping = self._until.passes_over(gtid)
        elif code in (EventType.ROTATE_EVENT, EventType.STOP_EVENT):
            self._skipping = False
        if self._skipping:
            self._skipped_to = position + len(event)
        elif code != EventType.ANNOTATE_ROWS_EVENT or self._order.annotate_rows:
            self._end_of_skip(file, position)
            self._before(file, position, len(event))
            self._send(event, file)
            if self._until is not None:
                self._until.sent(event, BinlogDecoder(file=file.name, format=file.format), position)

    @property
    def _is_reached(self) -> bool:
        return self._until is not None and self._until.reached

    def _has(self, gtid: Gtid | MariadbGtid) -> bool:
        have = self._have
        if isinstance(have, GtidSet) and isinstance(gtid, Gtid):
            return gtid in have
        if isinstance(have, MariadbGtidSet) and isinstance(gtid, MariadbGtid):
            if self._skip is None:
                before, executed = self._state, self._library.executed()
                known = executed if isinstance(executed, MariadbGtidSet) else None
                self._skip = MariadbSkip(have, before, known)
            return self._skip.passes_over(gtid)
        return False

    def _end_of_skip(self, file: ServedFile, position: int) -> None:
        """Report the position after skipped transactions, as a source does.

        MySQL sends a heartbeat, MariaDB a list of the GTIDs that it has passed.
        """
        if self._skipped_to is None:
            return
        self._skipped_to = None
        if isinstance(self._order.gtid_set, MariadbGtidSet):
            self._gtid_list(file, position)
        elif self._order.heartbeat_period:
            self._heartbeat(file, position)

    def _wire_format(self, file: ServedFile) -> BinlogFormat:
        """Return the format of artificial events, with checksums as last announced."""
        used = ChecksumAlgorithm.CRC32 if self._checksums else ChecksumAlgorithm.OFF
        return replace(file.format, checksum_algorithm=used)

    def _rotate_to(self, file: ServedFile, position: int) -> None:
        event = make_event(
            EventType.ROTATE_EVENT,
            RotateEvent(position, file.name),
            self._wire_format(file),
            server_id=self._library.server_id,
            flags=int(EventFlag.LOG_EVENT_ARTIFICIAL_F),
        )
        self._send(event, file)

    def _gtid_list(
        self,
        file: ServedFile,
        position: int,
        gtids: MariadbGtidSet | None = None,
        flags: int = 0,
    ) -> None:
        event = make_event(
            EventType.GTID_LIST_EVENT,
            replace(gtid_list(self._state if gtids is None else gtids), flags=flags),
            self._wire_format(file),
            server_id=self._library.server_id,
            next_position=position & 0xFFFFFFFF,
            flags=int(EventFlag.LOG_EVENT_ARTIFICIAL_F),
        )
        self._send(event, file)

    def _heartbeat(self, file: ServedFile, position: int, name: str = "") -> None:
        if self._order.heartbeat_v2:
            code = EventType.HEARTBEAT_LOG_EVENT_V2
            body: HeartbeatEvent | HeartbeatV2Event = HeartbeatV2Event(name or file.name, position)
        else:
            code, body = EventType.HEARTBEAT_LOG_EVENT, HeartbeatEvent(name or file.name)
        layout = self._wire_format(file)
        size = HEADER_SIZE + len(body.encode()) + layout.checksum_size
        header = EventHeader(0, code, self._library.server_id, size, position & 0xFFFFFFFF, 0)
        self._send(encode_event(BinlogEvent(header, body), layout), file)

    def _before(self, file: ServedFile, position: int, size: int) -> None:
        """Handle bytes that are about to be queued; a testing source cuts the connection here."""

    def _send(self, event: bytes, file: ServedFile) -> None:
        self._put(event)

    def _put(self, event: bytes) -> None:
        """Queue an event as one packet."""
        head = self._packet_head(event)
        self._output.packet(head + event)
        if head[-1] and len(head) > 1:
            self._output.sequence = 1  # the requested reply begins a new sequence

    def _packet_head(self, event: bytes) -> bytes:
        """Return the bytes before an event: 0, and the semi-synchronous header."""
        if not self._order.semi_sync:
            return b"\0"
        wants_reply = event[4] in (EventType.XID_EVENT, EventType.QUERY_EVENT)
        return bytes((0, SEMI_SYNC_MAGIC, wants_reply))
