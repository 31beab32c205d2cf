"""Dump requests: where a dump starts and how it behaves."""

from __future__ import annotations

import secrets

from replica_client.errors import ConfigError
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.client_server import DumpFlag
from replica_client.protocol.gtid import GtidSet, MariadbGtidSet
from replica_client.protocol.wire.dump_commands import (
    MAX_POSITION,
    ComBinlogDump,
    ComBinlogDumpGtid,
)
from replica_client.stream.transport.server_statements import ServerInfo


def random_server_id() -> int:
    """Return a random server id from the upper half of the range, which people seldom use."""
    return (1 << 31) + secrets.randbelow((1 << 31) - 1)


@dataclass(frozen=True, slots=True)
class DumpRequest:
    """The start of a dump and its options.

    Attributes:
        file: binlog file; empty with a GTID set, or for the first file that the source has.
        position: offset of an event's first byte in it.
        gtid_set: what we have already; None: start by file and position.
        non_block: end at the end of the last file instead of waiting.
        annotate_rows: MariaDB: send ANNOTATE_ROWS events (the statements' texts).
    """

    file: str = ""
    position: int = 4
    gtid_set: GtidSet | MariadbGtidSet | None = None
    non_block: bool = False
    annotate_rows: bool = True

    def __post_init__(self) -> None:
        if self.position < 4:
            raise ConfigError(f"position {self.position}: the first event of a file is at 4")

    def check(self, server: ServerInfo) -> None:
        """Raise unless this server's flavor supports the request.

        Raises:
            ConfigError: a GTID set of the other flavor.
        """
        wanted = MariadbGtidSet if server.is_mariadb else GtidSet
        if self.gtid_set is not None and not isinstance(self.gtid_set, wanted):
            raise ConfigError(
                f"the source is {server.flavor} {server.version_text}, but the start is a GTID "
                f"position of the other flavor: {self.gtid_set}"
            )

    @property
    def slave_connect_state(self) -> str | None:
        """MariaDB's start position as text; None unless the dump starts by GTID."""
        if isinstance(self.gtid_set, MariadbGtidSet):
            return self.gtid_set.slave_connect_state()
        return None

    def command(self, server: ServerInfo, server_id: int) -> bytes:
        """Build the payload of the dump command.

        A file position beyond 4 GiB needs COM_BINLOG_DUMP_GTID with an empty set. MySQL >= 8.0
        answers that when GTIDs are on (5.6 leaves events out).

        Raises:
            EncodeError: the protocol cannot ask for this position.
        """
        flags = DumpFlag.BINLOG_DUMP_NON_BLOCK if self.non_block else DumpFlag(0)
        if not server.is_mariadb and server.version >= (8, 0, 26):
            flags |= DumpFlag.USE_HEARTBEAT_EVENT_V2  # heartbeats with 64-bit positions
        if isinstance(self.gtid_set, GtidSet):
            flags |= DumpFlag.BINLOG_THROUGH_GTID
            return ComBinlogDumpGtid(self.gtid_set.encode(), server_id, flags=flags).encode()
        if self.annotate_rows and server.is_mariadb:
            flags |= DumpFlag.BINLOG_SEND_ANNOTATE_ROWS_EVENT
        if self.gtid_set is not None:
            return ComBinlogDump("", 4, server_id, flags).encode()
        if self.position > MAX_POSITION and not server.is_mariadb and server.version >= (8, 0, 0):
            return ComBinlogDumpGtid(
                GtidSet().encode(), server_id, self.file, self.position, flags
            ).encode()
        return ComBinlogDump(self.file, self.position, server_id, flags).encode()
