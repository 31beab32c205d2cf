"""The dump that a client requests, and where it begins."""

from __future__ import annotations

from replica_client.binlog.file_scan import FIRST_EVENT
from replica_client.codec.quick_dataclass import dataclass
from replica_client.constants.event_types import ChecksumAlgorithm
from replica_client.gtid import GtidSet, MariadbGtidSet, format_uuid
from replica_client.server.served_files import ServedFile
from replica_client.server.served_library import BinlogLibrary, fatal
from replica_client.transport.server_info import parse_version


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
