"""The relay as a replica: one connection to the source, or to the server that took its place."""

from __future__ import annotations

import asyncio
import errno
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from replica_client.archive.backup.backup_catalog import SourceIdentity
from replica_client.archive.backup.engine import PASSING, Backup, BackupOptions, BackupStatus
from replica_client.errors import (
    BackupError,
    BackupMismatchError,
    BinlogReadError,
    ReplicaClientError,
    ServerError,
    SourceChangedError,
    TransportError,
)
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.events import RotateEvent
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.gtid import GtidSet, MariadbGtidSet
from replica_client.protocol.wire.resultset import Value
from replica_client.server.relay.epochs import Epoch, Epochs
from replica_client.server.relay.relay_library import SourceVariables
from replica_client.stream.live.source_identity import check_executed
from replica_client.stream.live.stream_options import ReconnectPolicy
from replica_client.stream.transport.connect_options import ConnectOptions
from replica_client.stream.transport.connection import SourceConnection
from replica_client.stream.transport.dump import DumpRequest
from replica_client.stream.transport.source_gtids import gtids_in_binlog

_LOG = logging.getLogger("replica_client.server")

_TRIES_PER_HOST: Final = 2
_HOST_SECONDS: Final = 1.0
_WATCH_SECONDS: Final = 10.0
_LASTING_SECONDS: Final = 10.0
DISK_SECONDS: Final = 5.0
"""Seconds to wait before a full disk is tried again."""

_PROBE_HEARTBEAT: Final = 2.0
_SILENT_PERIODS: Final = 2


@dataclass(frozen=True, slots=True)
class UpstreamOptions:
    """Options of the relay's connection to its source.

    Attributes:
        server_id: ours, unique among the source's replicas; None: a random one.
        heartbeat_period: seconds of silence after which the source sends a heartbeat.
        read_timeout: seconds without a byte after which a connection is dead; None: three heartbeats.
        semi_sync: the source waits for our acknowledgement, sent when events are on disk.
    """

    server_id: int | None = None
    heartbeat_period: float = 10.0
    read_timeout: float | None = None
    semi_sync: bool = False


class Upstream:
    """The relay's connection to its source; begins a new epoch when the source is another server.

    Args:
        hosts: of the source and of the servers that may take its place.
        epochs: the directories.
        options: of the connection.
        on_growth: called after each piece that was written, with the name of the source's file.
        on_epoch: called when a new epoch has begun.
        on_gtid_mode: called with whether a MySQL source has GTIDs on, at each connection.
        serves: returns whether there is a file to serve: then no error ends the relay.

    Attributes:
        host: the current server, or the one being tried, as ``host:port``.
        connected: whether the current connection has received something.
        error: why there is no connection; empty while there is one.
        status: progress of the copy; None before the first connection.
        contact: when the source last sent something, seconds since 1970; None before.
    """

    def __init__(
        self,
        hosts: Sequence[ConnectOptions],
        epochs: Epochs,
        options: UpstreamOptions,
        *,
        on_growth: Callable[[str], None],
        on_epoch: Callable[[], None],
        on_gtid_mode: Callable[[bool], None],
        serves: Callable[[], bool] = bool,
    ) -> None:
        self._hosts = list(hosts)
        self._epochs = epochs
        self._options = options
        self._on_growth = on_growth
        self._on_epoch = on_epoch
        self._on_gtid_mode = on_gtid_mode
        self._serves = serves
        self._connected = 0
        self.connected = False
        self.host = self._hosts[0].address
        self.error = ""
        self.status: BackupStatus | None = None
        self.contact: float | None = None
        self._source_variables = SourceVariables(epochs.directory)
        self._following: asyncio.Future[None] | None = None

    def change_hosts(self, hosts: Sequence[ConnectOptions]) -> None:
        """Follow other servers from now on; their files must continue those already kept."""
        if list(hosts) == self._hosts:
            return
        self._hosts = list(hosts)
        following, self._following = self._following, None
        if following is not None:
            following.cancel()

    @property
    def user(self) -> str:
        """The account at the source."""
        return self._hosts[0].user

    @property
    def lag_seconds(self) -> float | None:
        """Seconds that the newest event took to arrive, plus the seconds since contact was lost."""
        status = self.status
        if status is None or self.contact is None:
            return None
        silent = time.time() - self.contact
        if self.connected:
            silent -= _SILENT_PERIODS * self._options.heartbeat_period
        return status.delay + max(0.0, silent)

    async def variables(self) -> Mapping[str, Value] | None:
        """Return the source's variables, at most ten seconds old; None if it was never asked."""
        return await self._source_variables.current(self._hosts[0] if self.connected else None)

    async def run(self) -> None:
        """Follow the source until cancelled.

        Once there is something to serve, no error of the source and no full disk ends the relay: it
        reports the error, serves the files it has, and tries again.

        Raises:
            BackupError: the source does not continue the kept files, and there is nothing to serve.
            ServerError: the only host refuses for good, and there is nothing to serve.
            OSError: the directory cannot be written although the disk is not full; nothing to
                serve.
        """
        failed = 0
        while True:
            host = self._hosts[0]
            self.host = host.address
            self._connected = 0
            following = self._following = asyncio.ensure_future(self._follow(host))
            try:
                await following
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if following is self._following or task is None or task.cancelling():
                    raise
                _LOG.info("the source is now %s", self._hosts[0].address)
            except (ReplicaClientError, OSError) as error:
                failed = 1 if self._connected else failed + 1
                lasting = self._is_lasting(error, failed)
                if lasting and not self._serves() and not is_full(error):
                    raise
                text = _said(error)
                if text != self.error or not lasting:
                    _LOG.log(
                        logging.ERROR if lasting else logging.WARNING, "%s: %s", host.address, text
                    )
                self.error, self.connected = text, False
                if len(self._hosts) > 1 and isinstance(error, ReplicaClientError):
                    self._hosts.append(self._hosts.pop(0))
                    _LOG.warning("next: %s", self._hosts[0].address)
                if is_full(error):
                    await asyncio.sleep(DISK_SECONDS)
                elif failed >= len(self._hosts):
                    await asyncio.sleep(_LASTING_SECONDS if lasting else _HOST_SECONDS)
                else:
                    await asyncio.sleep(0)

    def _is_lasting(self, error: ReplicaClientError | OSError, failed: int) -> bool:
        """Return whether another try would probably fail the same way at every host."""
        if not isinstance(error, ReplicaClientError):
            return True
        return not self._goes_on(error) or (failed > len(self._hosts) and _is_final(error))

    def _goes_on(self, error: ReplicaClientError) -> bool:
        """Return whether another host or another try may succeed."""
        if isinstance(error, ServerError) and error.errno in PASSING:
            return True
        return isinstance(error, TransportError) or len(self._hosts) > 1

    async def _follow(self, host: ConnectOptions) -> None:
        epoch, first_file = await self._epoch(host)
        alone = len(self._hosts) == 1
        options = BackupOptions(
            server_id=self._options.server_id,
            heartbeat_period=self._options.heartbeat_period,
            read_timeout=self._options.read_timeout,
            semi_sync=self._options.semi_sync,
            first_file=first_file,
            reconnect=ReconnectPolicy(
                attempts=None if alone else _TRIES_PER_HOST, first_attempts=1
            ),
            wait_for_first=True,
            indexes=False,
        )
        copying = asyncio.ensure_future(
            Backup(host, epoch.path, options, on_progress=self._progress).run()
        )
        watching = asyncio.ensure_future(self._watch(host))
        try:
            await asyncio.wait((copying, watching), return_when=asyncio.FIRST_COMPLETED)
            if not copying.done():
                await watching
        finally:
            for task in (copying, watching):
                task.cancel()
            await asyncio.gather(copying, watching, return_exceptions=True)
        if not copying.cancelled():
            await copying

    async def _watch(self, host: ConnectOptions) -> None:
        """Return once the source no longer has the position that it sent.

        After a RESET, a source leaves a waiting dump connected; the next connection reports the
        error. A source that grows is not asked.
        """
        before: tuple[str, int] | None = None
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            status = self.status
            if status is None or not self.connected:
                continue
            reached = (status.file, status.position)
            if reached != before:
                before = reached
                continue
            try:
                async with asyncio.timeout(_WATCH_SECONDS):
                    async with await SourceConnection.open(host) as connection:
                        listed = dict(await connection.binary_logs())
            except (ReplicaClientError, TimeoutError):
                continue  # the dump itself reports this error
            if listed.get(status.file, 0) < status.position:
                _LOG.warning(
                    "%s: %s has no position %d any more", host.address, status.file, status.position
                )
                return

    def _progress(self, status: BackupStatus) -> None:
        self.status = status
        if status.connections > self._connected:
            self._connected = status.connections
        self.error, self.connected = status.error, bool(status.connections and not status.error)
        if self.connected:
            self.contact = time.time()
        self._on_growth(status.file)

    async def _epoch(self, host: ConnectOptions) -> tuple[Epoch, str]:
        """Return the epoch for a host's server, and the first file of a new one (else empty)."""
        connection = await SourceConnection.open(host)
        async with connection:
            server = connection.server
            if not server.is_mariadb:
                [[mode]] = await connection.query("SELECT @@global.gtid_mode", columns=1)
                self._on_gtid_mode(str(mode) == "ON")
            await self._source_variables.ask(connection)
            current = self._epochs.current
            if current is None:
                return self._epochs.begin(), ""
            known = (await asyncio.to_thread(current.catalog)).source
            found = SourceIdentity(
                str(server.flavor), server.version_text, server.server_uuid, server.server_id
            )
            if not known.flavor or _same(known, found):
                return current, ""
            have = await asyncio.to_thread(self._epochs.executed)
            if have is None:
                raise BackupMismatchError(
                    f"{host.address} is another server than the one before, and without GTIDs its files cannot "
                    "be joined to those that are kept: start over in an empty directory"
                )
            executed = await gtids_in_binlog(connection, have)
            check_executed(have, executed, host.address)
            first_file = await self._first_file(connection, have)
        _LOG.warning(
            "%s (%s) is the source now; its files are kept from %s on",
            host.address,
            found.server_uuid or found.server_id,
            first_file,
        )
        epoch = self._epochs.begin()
        self._on_epoch()
        return epoch, first_file

    async def _first_file(
        self, connection: SourceConnection, have: GtidSet | MariadbGtidSet
    ) -> str:
        """Return the file in which the server would begin a dump for these GTIDs."""
        dump = await connection.start_dump(
            DumpRequest(gtid_set=have), heartbeat_period=_PROBE_HEARTBEAT
        )
        async with dump:
            first = (await dump.read())[0]
            body: RotateEvent = BinlogDecoder().decode(first, 0).body
            return body.next_file


def is_full(error: BaseException) -> bool:
    """Return whether an error reports a full disk."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def _said(error: BaseException) -> str:
    if isinstance(error, OSError) and not isinstance(error, ReplicaClientError):
        return f"{error.filename or 'the directory'}: {error.strerror or error}"
    return str(error)


def _same(known: SourceIdentity, found: SourceIdentity) -> bool:
    if known.flavor != found.flavor:
        return False
    if known.server_uuid or found.server_uuid:
        return known.server_uuid == found.server_uuid
    return known.server_id == found.server_id


def _is_final(error: ReplicaClientError) -> bool:
    """Return whether a host that gave this error will probably give it again."""
    if isinstance(error, ServerError):
        return not isinstance(error, BinlogReadError) and error.errno not in PASSING
    return isinstance(error, BackupError | SourceChangedError)
