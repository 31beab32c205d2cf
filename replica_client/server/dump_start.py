"""A requested dump, and where it starts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from replica_client.errors import ServerError
from replica_client.protocol.binlog.event import FIRST_EVENT
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.client_server import Command, DumpFlag, ServerFlavor
from replica_client.protocol.constants.event_types import ChecksumAlgorithm
from replica_client.protocol.gtid import GtidSet, MariadbGtidSet, format_uuid
from replica_client.protocol.wire.dump_commands import ComBinlogDump, ComBinlogDumpGtid
from replica_client.protocol.wire.resultset import Value
from replica_client.server.served_files import ServedFile
from replica_client.server.served_library import BinlogLibrary, fatal
from replica_client.stream.transport.server_statements import parse_version


@dataclass(frozen=True, slots=True)
class DumpOrder:
    """The dump that a client requested.

    Attributes:
        file: name; empty: the first file, or the one that GTIDs lead to.
        position: in it.
        non_block: end at the end.
        gtid_set: GTIDs that the client has; None: by file and position.
        checksum: the algorithm that the client supports; None: it did not say.
        heartbeat_period: seconds; 0: none.
        heartbeat_v2: heartbeats with 64-bit positions.
        annotate_rows: MariaDB: send ANNOTATE_ROWS events.
        until: MariaDB: the last GTIDs to send; None: there is no end.
        until_before: end before them.
        semi_sync: every event has the semi-synchronous header, transaction ends ask for a reply.
        copies: the client copies files byte for byte: transactions that it already has are sent,
            too.
    """

    file: str = ""
    position: int = FIRST_EVENT
    non_block: bool = False
    gtid_set: GtidSet | MariadbGtidSet | None = None
    checksum: ChecksumAlgorithm | None = None
    heartbeat_period: float = 0.0
    heartbeat_v2: bool = False
    annotate_rows: bool = True
    until: MariadbGtidSet | None = None
    until_before: bool = False
    semi_sync: bool = False
    copies: bool = False


def checksum_of_text(value: object) -> ChecksumAlgorithm | None:
    """Return the algorithm that a client's @…_binlog_checksum names; None when it was not set."""
    if value is None:
        return None
    text = str(value).upper()
    return ChecksumAlgorithm.CRC32 if text in ("CRC32", "1") else ChecksumAlgorithm.OFF


def find_start(
    library: BinlogLibrary, order: DumpOrder
) -> tuple[ServedFile, int, MariadbGtidSet | None]:
    """Find where a dump begins.

    Returns:
        The file, the position in it, and for MariaDB GTIDs what was executed before the file.

    Raises:
        ServerError: the order cannot be served.
    """
    if isinstance(order.gtid_set, GtidSet) and not order.file:
        return _start_by_gtids(library, order.gtid_set), FIRST_EVENT, None
    if isinstance(order.gtid_set, MariadbGtidSet):
        file = _start_by_position(library, order.gtid_set)
        before = file.previous if isinstance(file.previous, MariadbGtidSet) else None
        if parse_version(library.server_version) >= (11, 4, 0):
            return file, file.head_size, before  # these servers have an index of GTIDs
        return file, FIRST_EVENT, before
    found = library.find(order.file)
    if found is None:
        raise fatal("Could not find first log file name in binary log index file")
    if order.position < FIRST_EVENT:
        raise fatal(
            "Client requested source to start replication from position < 4, which is impossible"
        )
    if order.position > found.size:
        raise fatal("Client requested source to start replication from position > file size")
    return found, order.position, None


def _start_by_gtids(library: BinlogLibrary, have: GtidSet) -> ServedFile:
    if not library.has_gtids:
        raise fatal(
            "The replication sender thread cannot start in AUTO_POSITION mode: "
            "this server has GTID_MODE = OFF instead of ON."
        )
    executed = library.executed()
    uuid = library.server_uuid()
    if isinstance(executed, GtidSet) and uuid is not None:
        surplus = [sid for sid, _ in (have - executed).intervals() if format_uuid(sid) == uuid]
        if surplus:
            raise fatal(
                "Replica has more GTIDs than the source has, using the source's SERVER_UUID"
            )
    for file in _with_whole_heads(library):
        previous = file.previous if isinstance(file.previous, GtidSet) else GtidSet()
        if previous <= have:
            return file
    missing = library.purged()
    raise fatal(
        "Cannot replicate because the source purged required binary logs. Replicate the missing "
        "transactions from elsewhere, or provision a new replica from backup. The GTID set sent "
        f"by the replica is '{have}', and the missing transactions are '{missing}'"
    )


def _start_by_position(library: BinlogLibrary, have: MariadbGtidSet) -> ServedFile:
    executed = library.executed()
    for gtid in have.positions():
        if not isinstance(executed, MariadbGtidSet) or not executed.contains(gtid):
            raise fatal(
                f"Error: connecting slave requested to start from GTID {gtid}, "
                "which is not in the master's binlog",
            )
    for file in _with_whole_heads(library):
        previous = file.previous
        if not isinstance(previous, MariadbGtidSet) or previous <= have:
            return file
    raise fatal(
        "Could not find GTID state requested by slave in any binlog files. Probably the slave state "
        "is too old and required binlog files have been purged."
    )


def _with_whole_heads(library: BinlogLibrary) -> list[ServedFile]:
    """Return the files newest first, without the newest while its header is incomplete."""
    newest, *others = reversed(library.files)
    return [newest, *others] if newest.head_is_whole or not others else others


def joined(
    have: GtidSet | MariadbGtidSet | None, more: GtidSet | MariadbGtidSet
) -> GtidSet | MariadbGtidSet:
    """Return the union of two GTID sets, or the second one if they are of different kinds."""
    if isinstance(have, GtidSet) and isinstance(more, GtidSet):
        return have | more
    if isinstance(have, MariadbGtidSet) and isinstance(more, MariadbGtidSet):
        return have | more
    return more


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
