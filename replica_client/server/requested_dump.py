"""The dump that a client's dump packet and its user variables request."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from replica_client.binlog.file_scan import FIRST_EVENT
from replica_client.codec.quick_dataclass import dataclass
from replica_client.constants.commands import Command, DumpFlag
from replica_client.constants.flavor import ServerFlavor
from replica_client.errors import ServerError
from replica_client.gtid import GtidSet, MariadbGtidSet
from replica_client.server.dump_start import DumpOrder, checksum_of_text
from replica_client.wire.command_packets import ComBinlogDump, ComBinlogDumpGtid
from replica_client.wire.resultset import Value

COPY_VARIABLE: Final = "replica_client_copy"
"""Set to 1 by a client that copies files byte for byte and needs transactions it already has."""

_LONGEST_HEARTBEAT: Final = 1 << 62
_LONGEST_NUMBER: Final = 40
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


@dataclass(frozen=True, slots=True)
class RequestedDump:
    """A dump that a client requests.

    Attributes:
        order: the dump to send.
        server_id: of the client.
        replica_uuid: of the client, in lower case; empty when it has none.
    """

    order: DumpOrder
    server_id: int
    replica_uuid: str


def read_request(
    payload: bytes, variables: Mapping[str, Value], flavor: ServerFlavor
) -> RequestedDump:
    """Decode the request of COM_BINLOG_DUMP or COM_BINLOG_DUMP_GTID.

    Args:
        payload: of the packet.
        variables: the session's user variables, by name in lower case.
        flavor: of the files.

    Raises:
        ProtocolError: the packet is malformed.
        GtidFormatError: a GTID set is malformed.
        ServerError: a variable has a wrong value.
    """

    def variable(*names: str) -> Value:
        return next((variables[name] for name in names if name in variables), None)

    mariadb = flavor is ServerFlavor.MARIADB
    file, position = "", FIRST_EVENT
    gtid_set: GtidSet | MariadbGtidSet | None = None
    until: MariadbGtidSet | None = None
    if payload[0] == Command.COM_BINLOG_DUMP_GTID:
        by_gtid = ComBinlogDumpGtid.decode(payload)
        flags, file, position = by_gtid.flags, by_gtid.file, by_gtid.position
        server_id = by_gtid.server_id
        if not file:
            gtid_set = GtidSet.decode(by_gtid.gtid_set)
    else:
        plain = ComBinlogDump.decode(payload)
        flags, file, position = plain.flags, plain.file, plain.position
        server_id = plain.server_id
        state = variable("slave_connect_state")
        if mariadb and state is not None:
            gtid_set = MariadbGtidSet.parse(str(state))
            if (last := variable("slave_until_gtid")) is not None:
                until = MariadbGtidSet.parse(str(last))
    order = DumpOrder(
        file=file,
        position=position,
        non_block=bool(flags & DumpFlag.BINLOG_DUMP_NON_BLOCK),
        gtid_set=gtid_set,
        checksum=checksum_of_text(variable("source_binlog_checksum", "master_binlog_checksum")),
        heartbeat_period=_seconds(
            variable("source_heartbeat_period", "master_heartbeat_period") or 0
        ),
        heartbeat_v2=not mariadb and bool(flags & DumpFlag.USE_HEARTBEAT_EVENT_V2),
        annotate_rows=bool(flags & DumpFlag.BINLOG_SEND_ANNOTATE_ROWS_EVENT),
        until=until,
        until_before=variable("slave_gtid_until_before_gtids") in (1, "1"),
        semi_sync=bool(variable("rpl_semi_sync_replica", "rpl_semi_sync_slave")),
        copies=variable(COPY_VARIABLE) in (1, "1"),
    )
    return RequestedDump(order, server_id, _uuid(variable("replica_uuid", "slave_uuid")))


def _uuid(value: object) -> str:
    """Return a replica's UUID in lower case; empty when it has none.

    Raises:
        ServerError: it is no UUID.
    """
    text = str(value or "")
    if text and not _UUID.fullmatch(text):
        raise ServerError(1236, "HY000", "@replica_uuid is not a UUID")
    return text.lower()


def _seconds(period: object) -> float:
    """Return a heartbeat period, which clients give in nanoseconds.

    Raises:
        ServerError: it is no such number.
    """
    try:
        nanoseconds = float(str(period)[:_LONGEST_NUMBER])
    except ValueError:
        nanoseconds = -1.0
    if not 0 <= nanoseconds <= _LONGEST_HEARTBEAT:
        raise ServerError(1704, "HY000", "The requested value for the heartbeat period is wrong")
    return nanoseconds / 1e9
