"""The engine that copies a source's binlog files, across connections, until it is stopped."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Final

from replica_client.archive.backup.backup_catalog import Catalog, FileRecord, locked
from replica_client.archive.backup.finished_files import FileKeeper, FinishedFiles, KeepOptions
from replica_client.archive.backup.receiver import HEARTBEATS, BackupReceiver
from replica_client.archive.backup.resume import find_resume, unknown_file
from replica_client.errors import (
    BackupError,
    BinlogDecodeError,
    BinlogPurgedError,
    BinlogReadError,
    ConfigError,
    ProtocolError,
    ReplicaClientError,
    ServerError,
    ServerIdConflictError,
    TlsError,
    TransportError,
    UnknownBinlogError,
)
from replica_client.protocol.binlog.event import FIRST_EVENT
from replica_client.protocol.binlog.layout import TYPE_OFFSET
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.wire.dump_commands import MAX_POSITION
from replica_client.storage.location import local_path
from replica_client.stream.live.stream_options import ReconnectPolicy
from replica_client.stream.transport.connect_options import ConnectOptions, parse_url
from replica_client.stream.transport.connection import DEFAULT_HEARTBEAT_PERIOD, SourceConnection
from replica_client.stream.transport.dump import DumpRequest, DumpStream, random_server_id

_LOG = logging.getLogger("replica_client.archive")

_MAX_DAMAGED: Final = 3
_INDEX_INTERVAL: Final = 10.0

PASSING: Final = frozenset((1040, 1053, 1152, 1158, 1159, 1160, 1161, 1184, 1203, 1317, 1927, 3032))
"""Errors of a source that is shut down, restarted or full: it will be back."""


@dataclass(frozen=True, slots=True)
class BackupOptions:
    """The options of a backup.

    Attributes:
        stop_at_end: end at the end of the source's binlog instead of waiting.
        server_id: ours, unique among the source's replicas; None: a random one of 32 bits.
        heartbeat_period: seconds of silence after which the source sends a heartbeat.
        read_timeout: seconds without a byte after which the connection is dead; None: three heartbeats.
        sync_interval: seconds that events may wait to be synced to disk.
        reconnect: how to connect again; None: without end, or 20 times with ``stop_at_end``.
        max_position: the largest position to ask a source for; beyond it, files are compared from
            their start.
        semi_sync: the source waits for our acknowledgement, which comes when events are on disk.
        first_file: where a new copy begins; ``""``: with the source's first file.
        wait_for_first: a new copy also waits for a source that cannot be reached at its start.
        indexes: write the sidecar index of each finished file, which questions to an archive use.
        keep: how finished files are kept; None: as they are, without end.
        after_gap: go on after files that the source has purged; a warning and the catalogue say so.
    """

    stop_at_end: bool = False
    server_id: int | None = None
    heartbeat_period: float = DEFAULT_HEARTBEAT_PERIOD
    read_timeout: float | None = None
    sync_interval: float = 1.0
    reconnect: ReconnectPolicy | None = None
    max_position: int = MAX_POSITION
    semi_sync: bool = False
    first_file: str = ""
    wait_for_first: bool = False
    indexes: bool = True
    keep: KeepOptions | None = None
    after_gap: bool = False

    def __post_init__(self) -> None:
        if self.server_id is not None and not 0 < self.server_id < 1 << 32:
            raise ConfigError(f"server_id {self.server_id} is not between 1 and 4294967295")
        if self.sync_interval <= 0:
            raise ConfigError("sync_interval must be greater than 0 seconds")


@dataclass(slots=True)
class BackupStatus:
    """The progress of a backup.

    Attributes:
        file: name of the newest file, empty before the first.
        position: its size so far.
        appended: bytes copied by this run.
        behind: bytes that were to be copied when the last connection began; None when not known.
        connections: opened so far.
        error: why there is no connection now; empty while there is one.
        delay: seconds from the commit of the newest event to its arrival, by both clocks.
    """

    file: str = ""
    position: int = 0
    appended: int = 0
    behind: int | None = None
    connections: int = 0
    error: str = ""
    delay: float = 0.0


class Backup:
    """Copies the binlog files of a source into a directory, and goes on where an earlier run ended.

    The directory holds the source's files byte for byte, and the index ``backup.json``. The point to go
    on from is the last whole event of the newest file, found by looking through it; the source's event
    there is compared with the copy's, so that another source is noticed.

    Args:
        source: URL, or how to connect.
        directory: made when it is not there; one process at a time may use it.
        options: how it behaves.
        on_file: called with each file that was finished.
        on_progress: called after each piece of the stream.

    Attributes:
        status: how far it is.
        newest: the entry of the newest file, once :meth:`run` ended.
        kept_fault: why files were not kept as ``keep`` says, once :meth:`run` ended; empty: they were.
    """

    def __init__(
        self,
        source: str | ConnectOptions,
        directory: str | Path,
        options: BackupOptions | None = None,
        *,
        on_file: Callable[[FileRecord], None] | None = None,
        on_progress: Callable[[BackupStatus], None] | None = None,
    ) -> None:
        self._connect_options = parse_url(source) if isinstance(source, str) else source
        self._directory = local_path(directory, "backup")
        self._options = options or BackupOptions()
        self._on_file = on_file or (lambda record: None)
        self._on_progress = on_progress or (lambda status: None)
        self._replica_uuid = str(uuid.uuid4())
        self._server_id = self._options.server_id or random_server_id()
        self._damaged: tuple[str, int, int] = ("", 0, 0)
        self._indexed = 0.0
        self._from_start = False
        self._asked_inside = False
        self._syncing: asyncio.Task[None] | None = None
        self.newest: FileRecord | None = None
        self.kept_fault = ""
        self.status = BackupStatus()

    async def run(self) -> FileRecord | None:
        """Copy until the end of the source's binlog, or for ever.

        However it ends, cancellation included, what was received is on disk and in the index.

        Returns:
            The entry of the newest file; None when the source has none.

        Raises:
            BackupGapError: the source no longer has the next events.
            BackupMismatchError: the copy is not of this source.
            BackupError: another process uses the directory.
            ServerError: the source refuses for a reason that another try does not mend.
            TransportError: the connection was lost, and could not be opened again; or there was none
                at the start of a new backup.
            BinlogDecodeError: an event came damaged several times.
            OSError: the directory cannot be written.
        """
        with locked(self._directory):
            catalog = await asyncio.to_thread(Catalog.load, self._directory)
            receiver = BackupReceiver(catalog, self._on_file)
            await asyncio.to_thread(receiver.open)
            self._report(receiver)
            keep = self._options.keep
            keeper = FileKeeper(self._directory, keep) if keep is not None else None
            finished: FinishedFiles | None = None
            if self._options.indexes or keeper is not None:
                finished = FinishedFiles(catalog, keeper, indexes=self._options.indexes)
                finished.start()
                receiver.on_finished = finished.add
            try:
                try:
                    await self._copy(catalog, receiver)
                finally:
                    try:
                        receiver.close()
                    finally:
                        self.newest = catalog.last
                if finished is not None:
                    await finished.finish()
            finally:
                if finished is not None:
                    await finished.stop()
                    self.kept_fault = finished.kept_fault
            return self.newest

    async def _copy(self, catalog: Catalog, receiver: BackupReceiver) -> None:
        """Receive over one connection after another."""
        options = self._options
        policy = options.reconnect or ReconnectPolicy(attempts=20 if options.stop_at_end else None)
        delays = policy.delays()
        while True:
            before = receiver.appended
            try:
                await self._follow(catalog, receiver)
                return
            except (
                TransportError,
                ServerError,
                ProtocolError,
                BinlogDecodeError,
                BackupError,
            ) as error:
                if receiver.appended > before:
                    delays = policy.delays()
                self._consider(error, receiver)
                first = not self.status.connections and catalog.last is None
                if first and isinstance(error, TransportError) and not self._options.wait_for_first:
                    raise  # who mistyped a port does not want to wait; a service does
                self.status.error = str(error)
                self._report(receiver)
                delay = next(delays, None)
                if delay is None:
                    raise
                _LOG.warning(
                    "connection lost: %s; next try in %.1f s, from %s",
                    error,
                    delay,
                    self._reached(receiver) or "the start",
                )
                await asyncio.sleep(delay)

    def _consider(self, error: ReplicaClientError, receiver: BackupReceiver) -> None:
        """Raise an error that another connection cannot fix."""
        if isinstance(error, TlsError):
            raise error
        if isinstance(error, TransportError):
            return
        if self._asked_inside and not receiver.confirmed and not self._from_start:
            # Not our last event: damaged on the way, or not our file? Its start shows it.
            self._from_start = isinstance(
                error, (BackupError, BinlogDecodeError, BinlogReadError)
            ) and not isinstance(
                error, (UnknownBinlogError, BinlogPurgedError, ServerIdConflictError)
            )
            if self._from_start:
                return
        if isinstance(error, BackupError):
            raise error
        if isinstance(error, ServerError):
            if error.errno in PASSING:
                return
            if isinstance(error, (UnknownBinlogError, BinlogPurgedError)):
                raise unknown_file(error, receiver.copy) from error
            if not isinstance(error, BinlogReadError) or isinstance(error, ServerIdConflictError):
                raise error
        # Damaged on the way, it comes whole the next time; damaged at the source, never. A source
        # that was reset under a dump ends it with a text of its own; the next connection shows it.
        copy = receiver.copy
        end = ("", 0) if copy is None else (copy.record.name, copy.size)
        count = self._damaged[2] + 1 if self._damaged[:2] == end else 1
        self._damaged = (*end, count)
        if count >= _MAX_DAMAGED:
            raise error

    async def _follow(self, catalog: Catalog, receiver: BackupReceiver) -> None:
        """Receive over one connection until it ends."""
        dump = await self._connect(catalog, receiver)
        try:
            async with dump:
                await self._take(dump, receiver)
        finally:
            await self._end_sync()

    async def _take(self, dump: DumpStream, receiver: BackupReceiver) -> None:
        interval = self._options.sync_interval
        synced = time.monotonic()
        while True:
            try:
                async with asyncio.timeout(interval):
                    events = await dump.read()
            except TimeoutError:
                events = None
            if events:
                receiver.receive(events)
                self.status.delay = _delay(events[-1], self.status.delay)
                self._from_start &= not receiver.confirmed
                self._report(receiver)
            waited_for = bool(events) and dump.semi_sync_active
            if events == [] or waited_for:
                await self._end_sync()
                await asyncio.to_thread(self._sync, receiver)
                synced = time.monotonic()
            elif time.monotonic() - synced >= interval and await self._begin_sync(receiver):
                synced = time.monotonic()
            if waited_for and receiver.copy is not None:
                await dump.acknowledge_semi_sync(receiver.copy.record.name, receiver.copy.size)
            if events == []:
                return

    async def _connect(self, catalog: Catalog, receiver: BackupReceiver) -> DumpStream:
        options = self._options
        self._asked_inside = False
        connection = await SourceConnection.open(self._connect_options)
        try:
            limit = 0 if self._from_start else options.max_position
            receiver.from_relay = connection.server.is_relay
            resume = await find_resume(
                connection,
                catalog,
                receiver.copy,
                max_position=limit,
                after_gap=options.after_gap,
            )
            if resume.gap:
                _LOG.warning("%s; the backup goes on after this gap", resume.gap)
            receiver.gap_before = resume.file if resume.gap else ""
            if resume.cut is not None:
                await asyncio.to_thread(receiver.cut, resume.cut)
                resume = await find_resume(connection, catalog, receiver.copy, max_position=limit)
            self.status.behind = resume.behind
            self.status.connections += 1
            self.status.error = ""
            self._report(receiver)
            file = resume.file or options.first_file
            receiver.connected(file, resume.position)
            self._asked_inside = resume.position > FIRST_EVENT
            if connection.server.is_relay:
                # Its files as they are, also where a transaction stands in those of two servers.
                await connection.query("SET @replica_client_copy = 1")
            return await connection.start_dump(
                DumpRequest(file, resume.position, non_block=options.stop_at_end),
                server_id=self._server_id,
                replica_uuid=self._replica_uuid,
                heartbeat_period=options.heartbeat_period,
                read_timeout=options.read_timeout,
                semi_sync=options.semi_sync,
            )
        finally:
            await connection.close()

    def _sync(self, receiver: BackupReceiver) -> None:
        _take_all(self._steps(receiver))

    def _steps(self, receiver: BackupReceiver) -> list[Callable[[], None]]:
        now = time.monotonic()
        save = now - self._indexed >= _INDEX_INTERVAL
        steps = receiver.begin_sync(save=save)
        if save:
            self._indexed = now
        return steps

    async def _begin_sync(self, receiver: BackupReceiver) -> bool:
        """Sync the received bytes to disk in a thread while more arrive.

        Returns:
            False while the thread still syncs the bytes before.
        """
        if self._syncing is not None and not self._syncing.done():
            return False
        await self._end_sync()
        if steps := self._steps(receiver):
            self._syncing = asyncio.create_task(asyncio.to_thread(_take_all, steps))
        return True

    async def _end_sync(self) -> None:
        """Wait for the thread, and raise its error."""
        syncing, self._syncing = self._syncing, None
        if syncing is not None:
            await syncing

    def _report(self, receiver: BackupReceiver) -> None:
        copy, status = receiver.copy, self.status
        if copy is not None:
            status.file, status.position = copy.record.name, copy.size
        status.appended = receiver.appended
        self._on_progress(status)

    def _reached(self, receiver: BackupReceiver) -> str:
        copy = receiver.copy
        return "" if copy is None else f"{copy.record.name}:{copy.size}"


def _take_all(steps: list[Callable[[], None]]) -> None:
    for step in steps:
        step()


def _delay(event: bytes, before: float) -> float:
    """Return the seconds from an event's time, which is in whole seconds, until now.

    A heartbeat gives 0, because the source had sent everything.
    """
    if event[TYPE_OFFSET] in HEARTBEATS:
        return 0.0
    written = int.from_bytes(event[:4], "little")
    return max(0.0, time.time() - written - 1) if written else before
