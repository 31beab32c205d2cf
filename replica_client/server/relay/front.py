"""The server that a relay's clients connect to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from replica_client.constants.flavor import ServerFlavor
from replica_client.errors import ServerError
from replica_client.server.binlog_server import BinlogServer
from replica_client.transport.server_info import RELAY_COMMENT
from replica_client.wire.resultset import Value

if TYPE_CHECKING:
    from replica_client.server.relay.upstream import Upstream

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
