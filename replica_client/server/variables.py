"""System variables that a server of binlog files answers with."""

from __future__ import annotations

from replica_client.constants.flavor import ServerFlavor
from replica_client.server.served_library import BinlogLibrary
from replica_client.wire.resultset import Value


def system_variables(
    library: BinlogLibrary,
    *,
    port: int,
    server_uuid: str,
    comment: str,
    semi_sync: bool = False,
) -> dict[str, Value]:
    """Names in lower case and values, as far as clients of a source ask for them."""
    flavor, version = library.flavor, library.server_version
    last = library.files[-1]
    values: dict[str, Value] = {
        "version": version,
        "version_comment": comment + (" (MariaDB)" if flavor is ServerFlavor.MARIADB else ""),
        "version_compile_os": "Linux",
        "server_id": library.server_id,
        "port": port,
        "log_bin": "ON",
        "binlog_format": "ROW",
        "binlog_row_image": "FULL",
        "binlog_row_metadata": "FULL",
        "binlog_checksum": "CRC32" if last.format.checksum_size else "NONE",
        "max_allowed_packet": 1 << 30,
        "net_write_timeout": 60,
        "net_read_timeout": 30,
        "net_buffer_length": 16384,
        "wait_timeout": 28800,
        "interactive_timeout": 28800,
        "auto_increment_increment": 1,
        "autocommit": 1,
        "character_set_client": "utf8mb4",
        "character_set_connection": "utf8mb4",
        "character_set_results": "utf8mb4",
        "character_set_server": "utf8mb4",
        "collation_server": "utf8mb4_general_ci",
        "collation_connection": "utf8mb4_general_ci",
        "init_connect": "",
        "license": "",
        "lower_case_table_names": None,  # files do not tell
        "sql_mode": "",
        "system_time_zone": "UTC",
        "time_zone": "+00:00",
        "transaction_isolation": "REPEATABLE-READ",
        "tx_isolation": "REPEATABLE-READ",
        "performance_schema": 0,
        "read_only": 0,
        "expire_logs_days": 0,
        "binlog_expire_logs_seconds": 0,
    }
    executed = str(library.executed()).replace("\n", "")
    if flavor is ServerFlavor.MARIADB:
        values |= {
            "gtid_binlog_pos": executed,
            "gtid_binlog_state": executed,
            "gtid_current_pos": executed,
            "gtid_slave_pos": "",
            "gtid_domain_id": 0,
            "gtid_strict_mode": 0,
            "rpl_semi_sync_master_enabled": "ON" if semi_sync else "OFF",
        }
    else:
        values |= {
            "server_uuid": server_uuid,
            "gtid_mode": "ON" if library.has_gtids else "OFF",
            "gtid_executed": executed,
            "gtid_owned": "",
            "gtid_purged": str(library.purged()).replace("\n", ""),
            "enforce_gtid_consistency": "ON" if library.has_gtids else "OFF",
            "binlog_transaction_compression": 0,
            "binlog_row_value_options": "",
        }
        if semi_sync:
            values["rpl_semi_sync_source_enabled"] = "ON"
    return values
