"""SQL statements by server flavor and version, and facts about a server.

Servers renamed *master* and *slave* step by step (MySQL 8.0.22 to 8.4). User variables of the dump
protocol have both names since 8.0.26; setting a name that a server does not read is harmless.
"""

from __future__ import annotations

import re

from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.client_server import ServerFlavor

RELAY_COMMENT = "replica_client relay"
"""How the ``version_comment`` of every relay begins."""

_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")


def parse_version(text: str) -> tuple[int, int, int]:
    """Parse a version: ``10.11.6-MariaDB-log`` gives (10, 11, 6); (0, 0, 0) when there is none.

    MariaDB puts ``5.5.5-`` before its version in the greeting, for very old replicas.
    """
    lowered = text.lower()
    if "mariadb" in lowered and text.startswith("5.5.5-"):
        text = text.removeprefix("5.5.5-")
    match = _VERSION.match(text)
    if match is None:
        return (0, 0, 0)
    return (int(match[1]), int(match[2]), int(match[3] or 0))


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """Identity and capabilities of a server after login.

    Attributes:
        flavor: MySQL or MariaDB.
        version: e.g. (9, 7, 4).
        version_text: as the server writes it.
        server_id: its ``server_id``.
        server_uuid: its ``server_uuid``; empty on MariaDB and before MySQL 5.6.
        connection_id: our session's id there.
        tls: TLS version in use, e.g. ``TLSv1.3``; empty without TLS.
        auth_plugin: plugin that we logged in with.
        lower_case_table_names: 0 where names of tables and databases that differ in letter case are of two
            tables, else 1 or 2; None when unknown.
        verified_by: what proved that the certificate is the server's; empty when nothing did.
        fingerprint: of its certificate, as ``tls_fingerprint`` takes it; empty without TLS.
        comment: its ``version_comment``.
    """

    flavor: ServerFlavor
    version: tuple[int, int, int]
    version_text: str
    server_id: int = 0
    server_uuid: str = ""
    connection_id: int = 0
    tls: str = ""
    auth_plugin: str = ""
    lower_case_table_names: int | None = None
    verified_by: str = ""
    fingerprint: str = ""
    comment: str = ""

    @property
    def casefolds_names(self) -> bool | None:
        """Whether names that differ only by letter case are the same; None when unknown."""
        return None if self.lower_case_table_names is None else self.lower_case_table_names != 0

    @property
    def is_relay(self) -> bool:
        """Whether the server is a relay of this package.

        The files of a relay may come from several servers in turn.
        """
        return self.comment.startswith(RELAY_COMMENT)

    @property
    def is_mariadb(self) -> bool:
        """Whether the server is MariaDB."""
        return self.flavor is ServerFlavor.MARIADB


@dataclass(frozen=True, slots=True)
class BinlogStatus:
    """The end of a server's binlog.

    Attributes:
        file: current file.
        position: its size so far.
        executed_gtid_set: MySQL's executed set, MariaDB's GTID position there; empty without GTIDs.
        do_databases: ``binlog_do_db``; empty: all.
        ignored_databases: ``binlog_ignore_db``.
    """

    file: str
    position: int
    executed_gtid_set: str
    do_databases: tuple[str, ...] = ()
    ignored_databases: tuple[str, ...] = ()

    @property
    def filters(self) -> str:
        """The filters in words: ``only databases a, b``; empty when there are none."""
        if self.do_databases:
            return f"only databases {', '.join(self.do_databases)} (binlog_do_db)"
        if self.ignored_databases:
            return f"no database {', '.join(self.ignored_databases)} (binlog_ignore_db)"
        return ""


MARIADB_SLAVE_CAPABILITY_GTID = 4
"""MariaDB: we understand every event type, GTID events included."""


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """Settings from which the session variables of a dump are made.

    Attributes:
        heartbeat_period_ns: nanoseconds without an event after which the source sends a heartbeat.
        replica_uuid: ours; lets the source end our previous dump thread.
        net_write_timeout: seconds that the source waits for a slow consumer.
        semi_sync: ask for semi-synchronous replication.
        slave_connect_state: MariaDB: GTID position to start after; None: by file and position.
        gtid_strict_mode: MariaDB: refuse a GTID position that is not in the binlog, where the source is strict.
    """

    heartbeat_period_ns: int
    replica_uuid: str
    net_write_timeout: int
    semi_sync: bool = False
    slave_connect_state: str | None = None
    gtid_strict_mode: bool = True


SESSION: tuple[str, ...] = (
    "sql_select_limit = 18446744073709551615",
    "max_join_size = 18446744073709551615",
    "sql_big_selects = 1",
    "sql_quote_show_create = 1",
    "sql_mode = 'STRICT_ALL_TABLES'",
    "/*!50708 max_execution_time = 0 */ /*M!100101 max_statement_time = 0 */",
)
"""Assignments of each of our sessions: no global setting may cut or change an answer.

Rows are cut by ``sql_select_limit``, questions end by ``max_join_size`` (1104), ``max_execution_time`` (MySQL 5.7.8,
3024) and ``max_statement_time`` (MariaDB 10.1.1, 1969); ``sql_quote_show_create`` and ``sql_mode`` (ANSI_QUOTES,
ORACLE, NO_TABLE_OPTIONS, MYSQL40) change what SHOW CREATE TABLE says. Each was seen on MySQL 5.6 and 9.7, MariaDB
10.11 and 11.8.
"""


def reading_session(assignments: tuple[str, ...] = SESSION) -> str:
    """Return the SET SESSION statement for these assignments."""
    plain = [one for one in assignments if not one.startswith("/*")]
    # A server sees the comment of its own flavor; the comma must be inside the comment.
    later = [one.replace(" max_", " , max_") for one in assignments if one.startswith("/*")]
    return " ".join(("SET SESSION", ", ".join(plain), *later))


def binlog_status(server: ServerInfo) -> str:
    """Return the statement that shows the end of the binlog."""
    if not server.is_mariadb and server.version >= (8, 2, 0):
        return "SHOW BINARY LOG STATUS"
    return "SHOW MASTER STATUS"


def replicas(server: ServerInfo) -> str:
    """Return the statement that lists registered replicas."""
    renamed = (10, 5, 1) if server.is_mariadb else (8, 0, 22)
    return (
        "SHOW REPLICA HOSTS"
        if server.is_mariadb and server.version >= renamed
        else ("SHOW REPLICAS" if server.version >= renamed else "SHOW SLAVE HOSTS")
    )


def has_checksums(server: ServerInfo) -> bool:
    """Return whether the server knows ``@@global.binlog_checksum``."""
    return server.version >= ((5, 3, 0) if server.is_mariadb else (5, 6, 2))


def has_server_uuid(server: ServerInfo) -> bool:
    """Return whether the server knows ``@@server_uuid`` and ``@@gtid_purged``."""
    return not server.is_mariadb and server.version >= (5, 6, 5)


def semi_sync_variables(server: ServerInfo) -> tuple[str, ...]:
    """Return the variables that show whether semi-synchronous replication is on at the source."""
    if server.is_mariadb:
        return ("rpl_semi_sync_master_enabled",)
    return ("rpl_semi_sync_source_enabled", "rpl_semi_sync_master_enabled")


def session_setup(server: ServerInfo, settings: SessionSettings) -> str:
    """Return the SET statement before a dump: a single one, as each statement costs a round trip.

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
            # MariaDB refuses a GTID that its binlog lacks when the replica asks for strict mode;
            # without it, numbers may go back, and a missing GTID is no reason to refuse.
            strict = "@@global.gtid_strict_mode" if settings.gtid_strict_mode else "0"
            assignments.append(f"@slave_gtid_strict_mode = {strict}")
            assignments.append("@slave_gtid_ignore_duplicates = 0")
    return "SET " + ", ".join(assignments)
