"""Check at every connection that the source is still the one that was read before.

A file name and an offset are valid on one server only, and only until its binlog is reset (``RESET
BINARY LOGS AND GTIDS``, a restored backup). A dump from there would deliver other events without
any sign. So a stream remembers which server it read and when each of its last files was begun, and
refuses to continue if they differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Self

from replica_client.errors import (
    BinlogPurgedError,
    PositionStoreError,
    SourceBehindError,
    SourceChangedError,
    SourceResetError,
)
from replica_client.protocol.binlog.event import FIRST_EVENT
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.client_server import ErrorCode
from replica_client.protocol.gtid import GtidSet, MariadbGtidSet, parse_uuid
from replica_client.protocol.position import Position, split_file_name
from replica_client.stream.transport.server_statements import ServerInfo

IDENTITY_KEY = "source"
"""Key in the state that is saved with a position."""

_KEPT_FILES = 16


@dataclass(frozen=True, slots=True)
class FileMark:
    """Header fields of a format description that identify a binlog file among those of its name.

    Attributes:
        timestamp: seconds since 1970 when the file was begun.
        server_id: id of the server that began it.
    """

    timestamp: int
    server_id: int


@dataclass(slots=True)
class SourceIdentity:
    """The identity of the server that positions belong to.

    Attributes:
        server_uuid: MySQL's UUID; empty when there is none.
        server_id: used instead on MariaDB.
        files: marks of the files read last, by name.
        foreign: GTIDs of the start that the source never had.
    """

    server_uuid: str = ""
    server_id: int = 0
    files: dict[str, FileMark] = field(default_factory=dict)
    foreign: GtidSet = field(default_factory=GtidSet)

    @property
    def known(self) -> bool:
        """Whether a server was read before."""
        return bool(self.server_uuid or self.server_id)

    def is_same_server(self, server: ServerInfo) -> bool:
        """Return whether a server is the one that was read before; True if none was."""
        if not self.known:
            return True
        if self.server_uuid or server.server_uuid:
            return self.server_uuid == server.server_uuid
        return self.server_id == server.server_id

    def adopt(self, server: ServerInfo) -> None:
        """Remember a server as the one that is read from now on."""
        if not self.known or not self.is_same_server(server):
            self.files = {}
        self.server_uuid, self.server_id = server.server_uuid, server.server_id

    def see_file(self, name: str, mark: FileMark, address: str) -> None:
        """Check the format description of a file against the remembered mark.

        Raises:
            SourceResetError: the file of that name was another one before.
        """
        known = self.files.setdefault(name, mark)
        if known != mark:
            raise SourceResetError(
                f"{address}: {name} was begun at {mark.timestamp} (Unix time) by server {mark.server_id}, "
                f"but what was read of it before was begun at {known.timestamp} by server "
                f"{known.server_id}: the source's binlog was reset; take a new snapshot"
            )
        if len(self.files) > _KEPT_FILES:
            del self.files[next(iter(self.files))]

    def to_state(self) -> dict[str, object]:
        """Return the identity as a JSON value."""
        marks = {name: [mark.timestamp, mark.server_id] for name, mark in self.files.items()}
        return {
            "server_uuid": self.server_uuid,
            "server_id": self.server_id,
            "files": marks,
            "foreign": self.foreign.compact(),
        }

    @classmethod
    def from_state(cls, value: object) -> Self:
        """Read the identity from its JSON value.

        Raises:
            PositionStoreError: the value is damaged.
        """
        try:
            if not isinstance(value, dict):
                raise TypeError
            files = {
                str(name): FileMark(int(mark[0]), int(mark[1]))
                for name, mark in value["files"].items()
            }
            foreign = GtidSet.parse(str(value["foreign"]))
            return cls(str(value["server_uuid"]), int(value["server_id"]), files, foreign)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError):
            raise PositionStoreError(
                "the saved position has a damaged entry about its source; start from a new snapshot"
            ) from None


def foreign_gtids(have: GtidSet, executed: GtidSet, server_uuid: str) -> GtidSet:
    """Return the GTIDs of a start whose servers the source does not know.

    They come, for example, from a replica with transactions of its own. Empty when the source
    shares nothing with the start: then it is the wrong source.
    """
    missing = have - executed
    known = {sid for sid, _ in executed.intervals()} | {parse_uuid(server_uuid)}
    foreign = {tsid: ranges for tsid, ranges in missing.intervals().items() if tsid[0] not in known}
    return GtidSet.of_intervals(foreign) if have & executed else GtidSet()


def missing_gtids(have: GtidSet | MariadbGtidSet, executed: GtidSet | MariadbGtidSet) -> str:
    """Return our GTIDs that a source lacks, as text; empty if it has all.

    MySQL's as a set; MariaDB's as ``domain 0: 101-150``, since a position holds only the last GTID.
    """
    if isinstance(have, GtidSet):
        return (
            str(have - executed).replace("\n", "") if isinstance(executed, GtidSet) else str(have)
        )
    lacking = []
    for gtid in have.positions():
        if isinstance(executed, MariadbGtidSet) and executed.contains(gtid):
            continue
        reached = executed.reached(gtid.domain_id) if isinstance(executed, MariadbGtidSet) else 0
        if reached >= gtid.sequence:
            lacking.append(f"domain {gtid.domain_id}: {gtid}")
        else:
            first, last = reached + 1, gtid.sequence
            numbers = str(last) if first == last else f"{first}-{last}"
            lacking.append(f"domain {gtid.domain_id}: {numbers}")
    return ", ".join(lacking)


def check_executed(
    have: GtidSet | MariadbGtidSet, executed: GtidSet | MariadbGtidSet, address: str
) -> None:
    """Raise if a source lacks transactions that we have.

    Raises:
        SourceBehindError: it does; ``missing`` names them.
    """
    missing = missing_gtids(have, executed)
    if missing:
        raise SourceBehindError(
            f"{address} lacks transactions that we already have: {missing}; it lags, was reset, "
            "or is not a replica of the source before; follow a source that has them, or take a new "
            "snapshot",
            missing,
        )


def check_file(
    position: Position, logs: Sequence[tuple[str, int]], address: str, by_gtid: bool
) -> None:
    """Raise if a source's list of files rules out a position.

    Args:
        position: on this very server.
        logs: names and sizes of its files.
        address: of the source, for messages.
        by_gtid: the position's GTID set finds the position, not its file.

    Raises:
        SourceResetError: the binlog was restarted.
        BinlogPurgedError: the file was purged, and no GTID set finds the position.
    """
    sizes = dict(logs)
    size = sizes.get(position.file)
    if size is not None:
        if size < position.offset:
            raise SourceResetError(
                f"{address}: {position.file} has {size} bytes, but {position.offset} of it were read "
                "before: the source's binlog was reset, or lost its end in a crash; take a new snapshot"
            )
        return
    if not logs:
        return
    base, number = split_file_name(position.file)
    (first_base, first), (last_base, last) = (split_file_name(logs[at][0]) for at in (0, -1))
    begun = position.offset <= FIRST_EVENT  # named by a ROTATE; the file may not exist yet
    if last_base == base and last < number - begun:
        raise SourceResetError(
            f"{address}: the newest binlog file is {logs[-1][0]}, but {position.file} was read before: "
            "the source's binlog was reset; take a new snapshot"
        )
    if not by_gtid and first_base == base and first > number:
        raise BinlogPurgedError(
            ErrorCode.ER_MASTER_FATAL_ERROR_READING_BINLOG,
            "HY000",
            f"the source has purged {position.file}, its oldest file is {logs[0][0]}",
            "take a new snapshot, and keep files longer (binlog_expire_logs_seconds)",
        )


def refuse_file_elsewhere(position: Position, address: str) -> SourceChangedError:
    """Return the error for a file and an offset that belong to another server."""
    return SourceChangedError(
        f"{address} is another server than the one that {position.file}:{position.offset} was read from, "
        "and without GTIDs that place means nothing there; go back to that server, or take a new snapshot"
    )
