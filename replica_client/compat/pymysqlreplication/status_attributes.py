"""Status variables of query events as attributes under the names of python-mysql-replication."""

from __future__ import annotations

from typing import Any

from replica_client.protocol.binlog.events.query_status import QueryStatus

_NAMES = {
    "flags2": "flags2",
    "sql_mode": "sql_mode",
    "auto_increment_increment": "auto_increment_increment",
    "auto_increment_offset": "auto_increment_offset",
    "character_set_client": "character_set_client",
    "collation_connection": "collation_connection",
    "collation_server": "collation_server",
    "time_zone": "time_zone",
    "lc_time_names": "lc_time_names_number",
    "character_set_database": "charset_database_number",
    "table_map_for_update": "table_map_for_update",
    "invoker_user": "user",
    "invoker_host": "host",
    "microseconds": "microseconds",
    "explicit_defaults_for_timestamp": "explicit_defaults_ts",
    "ddl_xid": "ddl_xid",
    "default_collation_for_utf8mb4": "default_collation_for_utf8mb4_number",
    "sql_require_primary_key": "sql_require_primary_key",
    "default_table_encryption": "default_table_encryption",
}
_MARIADB_NAMES = _NAMES | {"microseconds": "hrnow", "ddl_xid": "xid"}

STATUS_NAMES = frozenset(
    (*_NAMES.values(), *_MARIADB_NAMES.values(), "catalog_nz_code", "mts_accessed_db_names")
)
"""The names of all of them."""


def status_attributes(status: QueryStatus, dbms: str) -> dict[str, Any]:
    """Return the attributes of the status variables that are present."""
    present = status.present()
    names = _MARIADB_NAMES if dbms == "mariadb" else _NAMES
    found = {names[name]: value for name, value in present.items() if name in names}
    if status.catalog is not None:
        found["catalog_nz_code"] = status.catalog
    if status.updated_databases is not None:
        found["mts_accessed_db_names"] = list(status.updated_databases)
    return found
