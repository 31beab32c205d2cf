"""Which SQL a server wants: the one table of spellings by flavor and version.

Servers renamed *master* and *slave* step by step (MySQL 8.0.22 to 8.4); user variables of the dump
protocol have both names since 8.0.26, and setting one that a server does not read is harmless.
"""

from __future__ import annotations

from replica_client.codec.quick_dataclass import dataclass
from replica_client.transport.server_info import ServerInfo

MARIADB_SLAVE_CAPABILITY_GTID = 4
"""MariaDB: we understand every event type, GTID events included."""


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """What the session variables of a dump are made from.

    Attributes:
        heartbeat_period_ns: nanoseconds without an event after which the source sends a heartbeat.
        replica_uuid: ours; lets the source end our previous dump thread.
        net_write_timeout: seconds that the source waits for a slow consumer.
        semi_sync: ask for semi-synchronous replication.
        slave_connect_state: MariaDB: GTID position to start after; None: by file and position.
        gtid_strict_mode: MariaDB: refuse a GTID position that is not in the binlog.
    """

    heartbeat_period_ns: int
    replica_uuid: str
    net_write_timeout: int
    semi_sync: bool = False
    slave_connect_state: str | None = None
    gtid_strict_mode: bool = True


def binlog_status(server: ServerInfo) -> str:
    """The statement that tells where the binlog ends."""
    if not server.is_mariadb and server.version >= (8, 2, 0):
        return "SHOW BINARY LOG STATUS"
    return "SHOW MASTER STATUS"


def replicas(server: ServerInfo) -> str:
    """The statement that lists registered replicas."""
    renamed = (10, 5, 1) if server.is_mariadb else (8, 0, 22)
    return (
        "SHOW REPLICA HOSTS"
        if server.is_mariadb and server.version >= renamed
        else ("SHOW REPLICAS" if server.version >= renamed else "SHOW SLAVE HOSTS")
    )


def has_checksums(server: ServerInfo) -> bool:
    """Whether the server knows ``@@global.binlog_checksum``."""
    return server.version >= ((5, 3, 0) if server.is_mariadb else (5, 6, 2))


def has_server_uuid(server: ServerInfo) -> bool:
    """Whether the server knows ``@@server_uuid`` and ``@@gtid_purged``."""
    return not server.is_mariadb and server.version >= (5, 6, 5)


def semi_sync_variables(server: ServerInfo) -> tuple[str, ...]:
    """Names under which a semi-synchronous source says that it is switched on."""
    if server.is_mariadb:
        return ("rpl_semi_sync_master_enabled",)
    return ("rpl_semi_sync_source_enabled", "rpl_semi_sync_master_enabled")


def session_setup(server: ServerInfo, settings: SessionSettings) -> str:
    """The SET statement before a dump: one, since each statement costs a round trip.

    The user variables are read by the source's dump thread: @master_binlog_checksum says that we
    can take checksums (without it a source with checksums refuses), and so on.
    """
    both = not server.is_mariadb and server.version >= (8, 0, 26)

    def names(old: str, new: str) -> tuple[str, ...]:
        return (old, new) if both else (old,)

    assignments = [f"SESSION net_write_timeout = {settings.net_write_timeout}"]
    assignments += [
        f"@{name} = {settings.heartbeat_period_ns}"
        for name in names("master_heartbeat_period", "source_heartbeat_period")
    ]
    if has_checksums(server):
        assignments += [
            f"@{name} = @@global.binlog_checksum"
            for name in names("master_binlog_checksum", "source_binlog_checksum")
        ]
    if not server.is_mariadb:
        assignments += [
            f"@{name} = '{settings.replica_uuid}'" for name in names("slave_uuid", "replica_uuid")
        ]
    if settings.semi_sync:
        assignments += [
            f"@{name} = 1" for name in names("rpl_semi_sync_slave", "rpl_semi_sync_replica")
        ]
    if server.is_mariadb:
        assignments.append(f"@mariadb_slave_capability = {MARIADB_SLAVE_CAPABILITY_GTID}")
        if settings.slave_connect_state is not None:
            assignments.append(f"@slave_connect_state = '{settings.slave_connect_state}'")
            assignments.append(f"@slave_gtid_strict_mode = {int(settings.gtid_strict_mode)}")
            assignments.append("@slave_gtid_ignore_duplicates = 0")
    return "SET " + ", ".join(assignments)
