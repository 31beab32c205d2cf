"""The relay as a whole: upstream, files, server, retention."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Final

from replica_client.archive.backup.backup_catalog import locked
from replica_client.errors import BackupError, ServerError, StorageError
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.protocol.wire.resultset import Value
from replica_client.server.accounts import Account, Limits
from replica_client.server.binlog_server import BinlogServer
from replica_client.server.relay.epochs import Epochs
from replica_client.server.relay.relay_archive import RelayArchive
from replica_client.server.relay.relay_library import RelayLibrary
from replica_client.server.relay.retention import Clients, Retention, count_before, removable
from replica_client.server.relay.upstream import Upstream, UpstreamOptions, is_full
from replica_client.server.served_files import ServedFile
from replica_client.storage.location import ObjectUrl
from replica_client.stream.transport.connect_options import ConnectOptions
from replica_client.stream.transport.server_statements import RELAY_COMMENT

Purge = Callable[[str, str], Awaitable[None]]


class RelayFront(BinlogServer):
    """A read-only server of binlog files that reports the status of its own source.

    Args:
        upstream: the connection to the source.
        purge: removes files up to a name, or before a time.
        keep_seconds: how long files are kept; None: for ever.
        options: those of :class:`BinlogServer`.
    """

    def __init__(
        self,
        *arguments: Any,
        upstream: Upstream,
        purge: Purge,
        keep_seconds: float | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*arguments, comment=RELAY_COMMENT, **options)
        self._upstream = upstream
        self._purge = purge
        self._keep_seconds = int(keep_seconds or 0)

    def variables(self) -> Mapping[str, Value]:
        """Return the variables of the relay and its files, by name in lower case."""
        values: dict[str, Value] = {
            **super().variables(),
            "read_only": 1,
            "report_host": "",
            "server_uuid": self.server_uuid,
            "expire_logs_days": self._keep_seconds // 86_400,
        }
        if self.library.flavor is ServerFlavor.MYSQL:
            values |= {
                "super_read_only": 1,
                "binlog_expire_logs_seconds": self._keep_seconds,
                "performance_schema": 0,
            }
        return values

    async def source_variables(self) -> Mapping[str, Value] | None:
        """Return the source's variables, from a cache that is refreshed when it is old."""
        return await self._upstream.variables()

    def replica_status(self) -> Mapping[str, Value] | None:
        """Return the row of SHOW REPLICA STATUS: how the relay follows its source."""
        upstream, files = self._upstream, self.library.files
        host, _, port = upstream.host.rpartition(":")
        status = upstream.status
        connected = upstream.connected and status is not None
        lag = upstream.lag_seconds
        return {
            "Replica_IO_State": "Waiting for source to send event" if connected else "",
            "Source_Host": host,
            "Source_User": upstream.user,
            "Source_Port": port,
            "Source_Log_File": "" if status is None else status.file,
            "Read_Source_Log_Pos": 0 if status is None else status.position,
            "Relay_Source_Log_File": "" if status is None else status.file,
            "Exec_Source_Log_Pos": 0 if status is None else status.position,
            "Replica_IO_Running": "Yes" if connected else "Connecting",
            "Replica_SQL_Running": "Yes",
            "Last_Errno": 0,
            "Last_Error": "",
            "Seconds_Behind_Source": int(lag) if connected and lag is not None else None,
            "Last_IO_Errno": 0 if connected else 2003,
            "Last_IO_Error": "" if connected else upstream.error,
            "Last_SQL_Errno": 0,
            "Last_SQL_Error": "",
            "Source_Server_Id": self.library.server_id,
            "Source_UUID": self.library.server_uuid() or "",
            "Retrieved_Gtid_Set": "",
            "Executed_Gtid_Set": str(self.library.executed()) if files else "",
            "Auto_Position": 0,
        }

    async def purge(self, user: str, *, to: str, before: str) -> None:
        """Remove the files before a file, or before a time.

        Raises:
            ServerError: the account may not purge, or the files are needed.
        """
        if not self.accounts.is_admin(user):
            raise ServerError(
                1227, "42000", "Access denied; PURGE needs an account with admin = true"
            )
        await self._purge(to, before)


_LOG = logging.getLogger("replica_client.server")

DEFAULT_LIMITS: Final = Limits(
    login_timeout=10.0,
    idle_timeout=600.0,
    write_timeout=60.0,
    connections=1000,
    logins=128,
    peer_logins=32,
    user_connections=100,
    refusal_delay=1.0,
    command_size=1 << 20,
    command_timeout=30.0,
    statement_timeout=10.0,
    session_memory=8 << 20,
    account_memory=24 << 20,
    account_share=0.05,
    replicas=100,
)

_PAUSE: Final = 0.05


@dataclass(frozen=True, slots=True)
class RelayOptions:
    """Options of a relay.

    Attributes:
        host: address to listen on.
        port: 0: any free one.
        tls: context for clients that ask for TLS; None: there is none.
        tls_required: refuse clients without TLS.
        limits: for each client.
        upstream: options of the connection to the source.
        semi_sync: request acknowledgements from clients that support them.
        archive: finished files are uploaded there, and served from there once removed from disk;
            None: no archive.
        retention: how long files are kept.
        upkeep_seconds: interval of the checks of clients and old files.
    """

    host: str = "127.0.0.1"
    port: int = 3307
    tls: ssl.SSLContext | None = None
    tls_required: bool = False
    limits: Limits = DEFAULT_LIMITS
    upstream: UpstreamOptions = field(default_factory=UpstreamOptions)
    semi_sync: bool = False
    archive: ObjectUrl | None = None
    retention: Retention = field(default_factory=Retention)
    upkeep_seconds: float = 10.0


class Relay:
    """A relay: follows a source, keeps its binlog files byte for byte, and serves them to replicas.

    Args:
        hosts: the source, and the servers that may take its place.
        directory: created if missing; one relay at a time may use it.
        accounts: who may log in.
        options: of the relay.

    Attributes:
        server: the server for clients; None until there is a file to serve.
        upstream: the connection to the source; None before :meth:`run`.
        archive: None without one.
        listening: set once clients may connect.
        disk_error: why the state of clients could not be written; empty when it was.
    """

    def __init__(
        self,
        hosts: Sequence[ConnectOptions],
        directory: str | Path,
        accounts: Iterable[Account],
        options: RelayOptions | None = None,
    ) -> None:
        self._hosts = list(hosts)
        self._directory = Path(directory)
        self._accounts = list(accounts)
        self._options = options or RelayOptions()
        self._growth = asyncio.Event()
        self._came = asyncio.Event()
        self._ended_epochs = 0
        self._server_uuid = ""
        self._login_key = b""
        self.server: RelayFront | None = None
        self.upstream: Upstream | None = None
        self.library: RelayLibrary | None = None
        self.clients: Clients | None = None
        self.archive: RelayArchive | None = None
        self.listening = asyncio.Event()
        self.disk_error = ""

    async def run(self) -> None:
        """Run the relay until cancelled.

        Raises:
            BackupError: the directory is not a relay's, or another process uses it.
            ReplicaClientError: there is nothing to serve yet, and the source refuses for good.
            ConfigError: the address cannot be listened on.
            OSError: the directory cannot be written.
        """
        options = self._options
        with locked(self._directory):
            if options.archive is not None:
                self.archive = RelayArchive(options.archive, self._directory)
                await asyncio.to_thread(self.archive.open)
            epochs = await asyncio.to_thread(Epochs, self._directory)
            try:
                await asyncio.to_thread(epochs.mend)
            except OSError as error:
                if not is_full(error):
                    raise
                # Bytes after the last whole event were cut off; the index is written again later.
                _LOG.error("%s: %s", self._directory, error.strerror)
            self._server_uuid = await asyncio.to_thread(epochs.server_uuid)
            self._login_key = await asyncio.to_thread(epochs.login_key)
            library = self.library = await asyncio.to_thread(RelayLibrary, epochs, self.archive)
            self.clients = await asyncio.to_thread(Clients, self._directory)
            self.upstream = Upstream(
                self._hosts,
                epochs,
                options.upstream,
                on_growth=self._grew,
                on_epoch=self._epoch_began,
                on_gtid_mode=library.tell_gtid_mode,
                serves=lambda: not library.is_empty,
            )
            try:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self.upstream.run())
                    tasks.create_task(self._serve(library))
                    tasks.create_task(self._keep(library, self.clients))
                    if self.archive is not None:
                        tasks.create_task(self._put_away(self.archive, epochs))
            except BaseExceptionGroup as group:
                raise _first(group) from None
            finally:
                if self.server is not None:
                    await self.server.close()
                self._save(self.clients)

    def _grew(self, name: str) -> None:
        """Pass on that the source's file grew: at once to waiting dumps if possible."""
        library = self.library
        if self.server is None or self._ended_epochs or library is None or not library.grow(name):
            self._growth.set()

    async def _serve(self, library: RelayLibrary) -> None:
        """Start the server once there is a file, and add new files and bytes as they come."""
        while True:
            self._growth.clear()
            if library.refresh() and self.server is not None:
                # Clients reconnect and continue in the new source's files.
                if self._ended_epochs or library.series_ended:
                    self._ended_epochs, library.series_ended = 0, False
                    await self.server.disconnect_all()
            if self.server is None:
                library.series_ended = False
            if self.server is None and not library.is_empty:
                await self._listen(library)
            await self._growth.wait()

    async def _listen(self, library: RelayLibrary) -> None:
        options = self._options
        # Before clients wait for it: a file of gigabytes takes seconds. Not in a thread, because
        # the status page looks at the same files meanwhile.
        await library.count()
        assert self.upstream is not None
        server = RelayFront(
            library,
            self._accounts,
            upstream=self.upstream,
            purge=self._purge,
            keep_seconds=options.retention.seconds,
            host=options.host,
            port=options.port,
            tls=options.tls,
            tls_required=options.tls_required,
            limits=options.limits,
            semi_sync=options.semi_sync,
            server_uuid=self._server_uuid,
            on_dump=self._came.set,
            login_key=self._login_key,
        )
        await server.start()
        self.server = server
        _LOG.info("serving %d files at %s:%d", len(library.files), options.host, server.port)
        self.listening.set()

    def change_accounts(self, accounts: Iterable[Account]) -> None:
        """Replace the accounts.

        Connections of accounts that are gone or have another password end.
        """
        self._accounts = list(accounts)
        if self.server is not None:
            self.server.change_accounts(self._accounts)

    def change_hosts(self, hosts: Sequence[ConnectOptions]) -> None:
        """Follow other servers from now on."""
        self._hosts = list(hosts)
        if self.upstream is not None:
            self.upstream.change_hosts(self._hosts)

    async def _purge(self, to: str, before: str) -> None:
        """Remove files for PURGE BINARY LOGS, but none that is being sent.

        Raises:
            ServerError: there is no such file, or the time is malformed.
        """
        library, server = self.library, self.server
        assert library is not None and server is not None
        files = library.files
        count = count_before(files, to, before)
        for session in server.sessions:
            sender = session.sender
            if sender is not None and sender.file in files[:count]:
                count = files.index(sender.file)
        await self._remove(library, count)

    async def _remove(self, library: RelayLibrary, count: int) -> None:
        """Remove the oldest files from disk; an archive still serves its copies."""
        if self.archive is None:
            gone, kept = library.files[:count], library.files[count]
            if gone:
                library.purge_to(kept.name)
        else:
            gone = await self._replaced(library, library.files[:count])
        for file in gone:
            if file.path is not None:
                await asyncio.to_thread(file.path.unlink, missing_ok=True)
                _LOG.info("removed %s (%d bytes)", file.name, file.size)

    def _epoch_began(self) -> None:
        if self.library is not None:
            self.library.end_epoch()
        self._ended_epochs += 1

    async def _keep(self, library: RelayLibrary, clients: Clients) -> None:
        """Save the clients' positions and remove files that no client needs, periodically."""
        retention = self._options.retention
        while True:
            await self._next_upkeep()
            self._see(clients)
            clients.forget(retention.client_seconds, self._options.limits.replicas)
            await asyncio.to_thread(self._save, clients)
            if library.is_empty:
                continue
            self._see(clients)  # clients that came while the file was written
            await self._remove(library, removable(library, retention, clients))

    async def _replaced(self, library: RelayLibrary, files: list[ServedFile]) -> list[ServedFile]:
        """Serve files from the archive from now on; return those that may be deleted from disk."""
        gone = []
        for file in files:
            if file.path is None or not library.is_archived(file):
                continue
            try:
                stored = await asyncio.to_thread(library.from_archive, file)
            except StorageError as error:
                _LOG.warning("%s stays: %s", file.name, error)
                break
            library.replace(file, stored)
            gone.append(file)
        return gone

    async def _put_away(self, archive: RelayArchive, epochs: Epochs) -> None:
        """Upload finished files to the archive, periodically."""
        while True:
            try:
                count = await asyncio.to_thread(archive.keep, epochs)
                archive.error = ""
                if count:
                    _LOG.info("put %d files into the archive", count)
            except (StorageError, BackupError) as error:
                if str(error) != archive.error:
                    _LOG.error("archive: %s", error)
                archive.error = str(error)
            await asyncio.sleep(self._options.upkeep_seconds)

    def _save(self, clients: Clients) -> None:
        """Save the clients' positions.

        On a full disk the last saved state stays, which keeps more files than needed.
        """
        try:
            clients.save()
            self.disk_error = ""
        except OSError as error:
            if not is_full(error):
                raise
            if not self.disk_error:
                _LOG.error("%s: %s", self._directory, error.strerror)
            self.disk_error = f"{self._directory}: {error.strerror}"

    async def _next_upkeep(self) -> None:
        """Wait for the next upkeep; a new client ends the wait.

        The position of a new client must be on disk before the relay can die.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._options.upkeep_seconds):
                await self._came.wait()
        await asyncio.sleep(_PAUSE)
        self._came.clear()

    def _see(self, clients: Clients) -> None:
        if self.server is not None:
            for session in self.server.sessions:
                clients.see(session)


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
