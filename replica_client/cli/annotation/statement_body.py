"""Layouts of events that carry SQL text and what a statement needs to be run again."""

from __future__ import annotations

from replica_client.cli.annotation.annotator import Annotator
from replica_client.cli.annotation.control import extra_post_header
from replica_client.protocol.binlog.context import EventContext
from replica_client.protocol.constants.event_types import EventType

_FLAGS3_WITH_SEQUENCE = 0x04 | 0x08
_INTEGERS = {
    0: ("flags2", 4, "OPTION_* bits"),
    1: ("sql_mode", 8, "bits"),
    7: ("lc_time_names", 2, "locale number"),
    8: ("character_set_database", 2, "collation id"),
    9: ("table_map_for_update", 8, "bit per table"),
    10: ("master_data_written", 4, "bytes"),
    13: ("microseconds", 3, "µs"),
    14: ("commit_timestamp", 8, ""),
    16: ("explicit_defaults_for_timestamp", 1, ""),
    17: ("ddl_xid", 8, ""),
    18: ("default_collation_for_utf8mb4", 2, "collation id"),
    19: ("sql_require_primary_key", 1, ""),
    20: ("default_table_encryption", 1, ""),
    128: ("microseconds", 3, "µs"),
    129: ("ddl_xid", 8, ""),
}
_HEXADECIMAL = {"flags2", "sql_mode", "table_map_for_update"}


def query(a: Annotator, ctx: EventContext) -> None:
    """QUERY, and MariaDB's QUERY_COMPRESSED."""
    a.section = "post-header"
    a.uint("thread_id", 4, "connection")
    a.uint("exec_time", 4, "s")
    schema_size = a.uint("schema length", 1, "bytes")
    a.uint("error_code", 2)
    status_size = 0
    if ctx.post_header_size(13) >= 13:
        status_size = a.uint("status_vars length", 2, "bytes")
        if ctx.type_code == EventType.EXECUTE_LOAD_QUERY_EVENT:
            a.uint("file_id", 4)
            a.uint("file_name_start", 4, "byte of the query")
            a.uint("file_name_end", 4, "byte of the query")
            a.uint("duplicates", 1, "0 error, 1 ignore, 2 replace")
            extra_post_header(a, ctx, 26)
        else:
            extra_post_header(a, ctx, 13)
    else:
        extra_post_header(a, ctx, 11)
    a.section = "status"
    end = a.offset + status_size
    while a.offset < end:
        code = a.uint("status variable", 1, "code")
        if not _status_variable(a, code):
            a.take("unparsed", end - a.offset, f"code {code} is not known")
    a.section = "body"
    a.take("schema", schema_size, "default database")
    a.nul("schema end")
    if ctx.type_code == EventType.QUERY_COMPRESSED_EVENT:
        a.rest("compressed query", "MariaDB compression header and zlib data")
    else:
        a.rest("query", "SQL text")


def _status_variable(a: Annotator, code: int) -> bool:
    if code in _INTEGERS:
        name, size, unit = _INTEGERS[code]
        a.uint(name, size, unit, hex if name in _HEXADECIMAL else str)
    elif code == 2:
        a.short_string("catalog")
        a.nul("catalog end")
    elif code == 3:
        a.uint("auto_increment_increment", 2)
        a.uint("auto_increment_offset", 2)
    elif code == 4:
        a.uint("character_set_client", 2, "collation id")
        a.uint("collation_connection", 2, "collation id")
        a.uint("collation_server", 2, "collation id")
    elif code == 5:
        a.short_string("time_zone")
    elif code == 6:
        a.short_string("catalog")
    elif code == 11:
        a.short_string("invoker_user")
        a.short_string("invoker_host")
    elif code == 12:
        count = a.uint("updated_databases_count", 1, "254: more than 16")
        for index in range(count if count <= 16 else 0):
            a.nul_string(f"updated_databases[{index}]")
    elif code == 15:
        a.uint("commit_timestamp2[0]", 8)
        a.uint("commit_timestamp2[1]", 8)
    elif code == 130:
        if a.uint("gtid_flags3", 1) & _FLAGS3_WITH_SEQUENCE:
            a.uint("start_alter_sequence", 8)
    elif code == 131:
        for index in range(a.uint("character_set_collations count", 1)):
            a.uint(f"character_set_collations[{index}].character_set", 2, "collation id")
            a.uint(f"character_set_collations[{index}].collation", 2, "collation id")
    else:
        return False
    return True


def rows_query(a: Annotator, ctx: EventContext) -> None:
    """ROWS_QUERY."""
    extra_post_header(a, ctx, 0)
    a.uint("length", 1, "bytes modulo 256, not to be used")
    a.rest("query", "SQL text")


def annotate_rows(a: Annotator, ctx: EventContext) -> None:
    """ANNOTATE_ROWS."""
    extra_post_header(a, ctx, 0)
    a.rest("query", "SQL text")


def intvar(a: Annotator, ctx: EventContext) -> None:
    """INTVAR."""
    extra_post_header(a, ctx, 0)
    a.uint("kind", 1, "1: LAST_INSERT_ID, 2: INSERT_ID")
    a.uint("value", 8)


def rand(a: Annotator, ctx: EventContext) -> None:
    """RAND."""
    extra_post_header(a, ctx, 0)
    a.uint("seed1", 8)
    a.uint("seed2", 8)


def user_var(a: Annotator, ctx: EventContext) -> None:
    """USER_VAR."""
    extra_post_header(a, ctx, 0)
    a.take("name", a.uint("name length", 4, "bytes"))
    if a.uint("is_null", 1, "not 0: NULL"):
        return
    a.uint("type_code", 1, "0 string, 1 real, 2 int, 4 decimal")
    a.uint("collation_id", 4, "collation id")
    a.take("value_bytes", a.uint("value length", 4, "bytes"), "by type_code")
    if a.remaining:
        a.uint("flags", 1, "bit 0: unsigned")
