"""The status variables of QUERY events: the session state that a statement ran under."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache, lru_cache
from typing import Any, Final

from replica_client.errors import ShortBufferError, TruncatedEventError
from replica_client.protocol.binlog.events.coding import reader_of
from replica_client.protocol.binlog.events.fields import (
    Field,
    Item,
    count,
    nul_string,
    prefixed,
    raw,
    repeated,
    text_names,
    uint,
    when,
)
from replica_client.protocol.codec.byte_fields import ByteReader
from replica_client.protocol.codec.compression import SizedCache
from replica_client.protocol.codec.quick_dataclass import dataclass

MAX_UPDATED_DATABASES = 16
"""The most database names that a server lists (``MAX_DBS_IN_EVENT_MTS``); else only a count."""

_GTID_FLAGS3_WITH_SEQUENCE = 0x04 | 0x08
_CACHED_SIZE = 512
_XID_SIZE = 8
_NO_XID = bytes(_XID_SIZE)


@dataclass(frozen=True, slots=True)
class QueryStatus:
    """Status variables of a QUERY event; None where one is absent.

    On the wire each is a code byte and the fields in :data:`VARIABLES`. Code 14 is in 5.7.1 to 5.7.4
    only, code 15 in no release.

    An unknown code ends the parsing; its code byte and all bytes after it are ``unparsed``.
    ``codes`` lists the codes met, in order. ``updated_databases`` is None with code 12 present when
    the server counted more than it lists (``updated_databases_count`` 254). ``ddl_xid`` commits an
    atomic DDL; ``master_data_written`` is the size of the event on the origin.

    Spec: MySQL ``Query_event`` (statement_events.h), MariaDB ``Query_log_event`` (log_event.h).
    """

    flags2: int | None = None
    sql_mode: int | None = None
    catalog: bytes | None = None
    auto_increment_increment: int | None = None
    auto_increment_offset: int | None = None
    character_set_client: int | None = None
    collation_connection: int | None = None
    collation_server: int | None = None
    time_zone: bytes | None = None
    lc_time_names: int | None = None
    character_set_database: int | None = None
    table_map_for_update: int | None = None
    master_data_written: int | None = None
    invoker_user: bytes | None = None
    invoker_host: bytes | None = None
    updated_databases: tuple[bytes, ...] | None = None
    updated_databases_count: int | None = None
    microseconds: int | None = None
    commit_timestamp: int | None = None
    commit_timestamp2: tuple[int, int] | None = None
    explicit_defaults_for_timestamp: int | None = None
    ddl_xid: int | None = None
    default_collation_for_utf8mb4: int | None = None
    sql_require_primary_key: int | None = None
    default_table_encryption: int | None = None
    gtid_flags3: int | None = None
    start_alter_sequence: int | None = None
    character_set_collations: tuple[tuple[int, int], ...] | None = None
    codes: tuple[int, ...] = ()
    unparsed: bytes = b""

    def present(self) -> dict[str, Any]:
        """Return the variables that are not None, by name, in the order of the table above."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            name: value
            for name, value in values.items()
            if value is not None and name not in ("codes", "unparsed")
        }


_COLLATION = "collation id"
VARIABLES: Final[Mapping[int, tuple[Item, ...]]] = {
    0: (uint("flags2", 4, "OPTION_* bits", show="hex"),),
    1: (uint("sql_mode", 8, "bits", show="hex"),),
    # 5.0.0 to 5.0.3 wrote a NUL after it.
    2: (prefixed("catalog", 1, is_text=True), raw("catalog_end", 1, is_hidden=True)),
    3: (uint("auto_increment_increment", 2), uint("auto_increment_offset", 2)),
    4: (
        uint("character_set_client", 2, _COLLATION),
        uint("collation_connection", 2, _COLLATION),
        uint("collation_server", 2, _COLLATION),
    ),
    5: (prefixed("time_zone", 1, is_text=True),),
    6: (prefixed("catalog", 1, is_text=True),),
    7: (uint("lc_time_names", 2, "locale number"),),
    8: (uint("character_set_database", 2, _COLLATION),),
    9: (uint("table_map_for_update", 8, "bit per table", show="hex"),),
    10: (uint("master_data_written", 4, "bytes"),),
    11: (prefixed("invoker_user", 1, is_text=True), prefixed("invoker_host", 1, is_text=True)),
    12: (
        uint("updated_databases_count", 1, "254: more than 16"),
        when(
            f"updated_databases_count <= {MAX_UPDATED_DATABASES}",
            repeated(
                "updated_databases", "updated_databases_count", nul_string("name", is_text=True)
            ),
        ),
    ),
    13: (uint("microseconds", 3, "µs"),),
    14: (uint("commit_timestamp", 8),),
    15: (repeated("commit_timestamp2", "2", uint("part", 8)),),
    16: (uint("explicit_defaults_for_timestamp", 1),),
    17: (uint("ddl_xid", 8),),
    18: (uint("default_collation_for_utf8mb4", 2, _COLLATION),),
    19: (uint("sql_require_primary_key", 1),),
    20: (uint("default_table_encryption", 1),),
    128: (uint("microseconds", 3, "µs", since="MariaDB"),),
    129: (uint("ddl_xid", 8, since="MariaDB"),),
    130: (
        uint("gtid_flags3", 1, since="MariaDB 10.8"),
        when(f"gtid_flags3 & {_GTID_FLAGS3_WITH_SEQUENCE}", uint("start_alter_sequence", 8)),
    ),
    131: (
        count("character_set_collations", 1),
        repeated(
            "character_set_collations",
            "character_set_collations_count",
            uint("character_set", 2, _COLLATION),
            uint("collation", 2, _COLLATION),
        ),
    ),
}
"""The fields after each code."""

STATUS_TEXTS: Final = text_names([item for items in VARIABLES.values() for item in items])
"""Names of the fields that are text."""

_INTEGERS: Final = {
    code: (items[0].name, items[0].size)
    for code, items in VARIABLES.items()
    if len(items) == 1 and isinstance(items[0], Field) and isinstance(items[0].size, int)
}


@cache
def _reader_of(code: int) -> Callable[[ByteReader], dict[str, Any]]:
    return reader_of(VARIABLES[code])


def _parse(data: bytes) -> tuple[QueryStatus, int]:
    """Return the variables and the offset of the value of ``ddl_xid``; 0 without one."""
    found: dict[str, Any] = {}
    xid_at = 0
    codes: list[int] = []
    at, size = 0, len(data)
    try:
        while at < size:
            code = data[at]
            codes.append(code)
            integer = _INTEGERS.get(code)
            if integer is not None and at + integer[1] < size:
                name, width = integer
                if name == "ddl_xid":
                    xid_at = at + 1
                found[name] = int.from_bytes(data[at + 1 : at + 1 + width], "little")
                at += 1 + width
                continue
            block = ByteReader(data)
            block.skip(at + 1)
            if integer is not None:
                block.uint(integer[1])  # raises: the value is cut
            if code not in VARIABLES:
                found["unparsed"] = data[at:]
                break
            found |= _reader_of(code)(block)
            at = block.offset
    except ShortBufferError as error:
        raise TruncatedEventError(f"status variable {codes[-1]}: {error}") from error
    return QueryStatus(**found, codes=tuple(codes)), xid_at


_parse_cached = lru_cache(maxsize=256)(_parse)


# Last offset of ddl_xid in a block of each size, and results by block without that value.
_xid_offsets: dict[int, int] = {}
_sessions: SizedCache[bytes, QueryStatus] = SizedCache(256)
# The last result: callers ask several times for one statement.
_recent: tuple[bytes, QueryStatus] = (b"", QueryStatus())


def parse_session_status(data: bytes) -> QueryStatus:
    """Parse a block of status variables, except ``ddl_xid``, which may be another statement's.

    Consecutive DDL statements often differ only in ``ddl_xid``: such blocks share one result.

    Raises:
        TruncatedEventError: a value goes beyond the block.
    """
    global _recent
    if _recent[0] is data:
        return _recent[1]
    status = _session_status(data)
    _recent = (data, status)
    return status


def _session_status(data: bytes) -> QueryStatus:
    size = len(data)
    at = _xid_offsets.get(size, 0)
    if at:
        known = _sessions.get(data[:at] + _NO_XID + data[at + _XID_SIZE :])
        if known is not None:
            return known
    if size > _CACHED_SIZE:
        return _parse(data)[0]
    status, at = _parse_cached(data)
    if at:
        _xid_offsets[size] = at
        _sessions.put(data[:at] + _NO_XID + data[at + _XID_SIZE :], status, size)
    return status


def xid_offset(data: bytes) -> int:
    """Return the offset of ``ddl_xid``'s value in a block of status variables; 0 without one.

    Raises:
        TruncatedEventError: a value goes beyond the block.
    """
    return _parse(data)[1]


def parse_query_status(data: bytes) -> QueryStatus:
    """Parse a block of status variables; equal blocks share one result.

    Raises:
        TruncatedEventError: a value goes beyond the block.
    """
    return (_parse_cached(data) if len(data) <= _CACHED_SIZE else _parse(data))[0]
