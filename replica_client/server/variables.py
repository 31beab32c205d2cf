"""System variables: of a server of binlog files, of a session, and of a testing source."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Final

from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.protocol.wire.resultset import Value
from replica_client.server.served_library import BinlogLibrary

SESSION_VARIABLES: Final[Mapping[str, Value]] = {
    "autocommit": 1,
    "character_set_client": "utf8mb4",
    "character_set_connection": "utf8mb4",
    "character_set_results": "utf8mb4",
    "collation_connection": "utf8mb4_general_ci",
}
"""Variables of every session; setting them has no effect."""

PLAYED_VARIABLES: Final[Mapping[str, Value]] = {
    "auto_increment_increment": 1,
    "sql_mode": "",
    "time_zone": "+00:00",
    "transaction_isolation": "REPEATABLE-READ",
    "tx_isolation": "REPEATABLE-READ",
    "binlog_format": "ROW",
    "binlog_row_image": "FULL",
    "binlog_row_metadata": "FULL",
    "binlog_row_value_options": "",
    "binlog_transaction_compression": 0,
    "character_set_server": "utf8mb4",
    "collation_server": "utf8mb4_general_ci",
    "lower_case_table_names": None,  # files do not say
    "system_time_zone": "UTC",
    "performance_schema": 0,
    "read_only": 0,
    "expire_logs_days": 0,
    "binlog_expire_logs_seconds": 0,
    "gtid_domain_id": 0,
    "gtid_strict_mode": 0,
}
"""Variables of a testing source, which is no real server."""


def own_variables(
    library: BinlogLibrary,
    *,
    port: int,
    server_uuid: str,
    comment: str,
    semi_sync: bool = False,
    idle_timeout: float | None = None,
    write_timeout: float | None = None,
    command_size: int = 1 << 30,
) -> dict[str, Value]:
    """Return the variables of the server and its files, by name in lower case."""
    flavor, version = library.flavor, library.server_version
    last = library.files[-1]
    wait = int(idle_timeout or 28800)
    values: dict[str, Value] = {
        "version": version,
        "version_comment": comment + (" (MariaDB)" if flavor is ServerFlavor.MARIADB else ""),
        "version_compile_os": "Linux",
        "hostname": socket.gethostname(),
        "server_id": library.server_id,
        "port": port,
        "log_bin": "ON",
        "log_slave_updates": "ON",
        "binlog_checksum": "CRC32" if last.format.checksum_size else "NONE",
        "max_allowed_packet": max(
            command_size, 1 << 30
        ),  # the largest event that a dump may contain
        "net_write_timeout": int(write_timeout or 60),
        "net_read_timeout": 30,
        "net_buffer_length": 16384,
        "wait_timeout": wait,
        "interactive_timeout": wait,
        "init_connect": "",
        "license": "",
    }
    executed = str(library.executed()).replace("\n", "")
    if flavor is ServerFlavor.MARIADB:
        values |= {
            "gtid_binlog_pos": executed,
            "gtid_binlog_state": executed,
            "gtid_current_pos": executed,
            "gtid_slave_pos": "",
            "rpl_semi_sync_master_enabled": "ON" if semi_sync else "OFF",
        }
    else:
        values |= {
            "server_uuid": server_uuid,
            "log_replica_updates": "ON",
            "gtid_mode": "ON" if library.has_gtids else "OFF",
            "gtid_executed": executed,
            "gtid_owned": "",
            "gtid_purged": str(library.purged()).replace("\n", ""),
            "enforce_gtid_consistency": "ON" if library.has_gtids else "OFF",
        }
        if semi_sync:
            values["rpl_semi_sync_source_enabled"] = "ON"
    return values
