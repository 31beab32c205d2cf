"""The status variables of QUERY events: the session state that a statement ran under."""

from __future__ import annotations

from dataclasses import fields
from functools import lru_cache
from typing import Any

from replica_client.errors import ShortBufferError, TruncatedEventError
from replica_client.protocol.codec.byte_fields import ByteReader
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.codec.sized_cache import SizedCache

MAX_UPDATED_DATABASES = 16
"""The most database names that a server lists (``MAX_DBS_IN_EVENT_MTS``); else only a count."""

_GTID_FLAGS3_WITH_SEQUENCE = 0x04 | 0x08
_CACHED_SIZE = 512
_XID_SIZE = 8
_NO_XID = bytes(_XID_SIZE)


@dataclass(frozen=True, slots=True)
class QueryStatus:
    """Status variables of a QUERY event; None where one is absent.

    On the wire each is a code byte and a value (little-endian)::

        code  bytes      field
        0     4          flags2                  OPTION_* bits of the session
        1     8          sql_mode
        2     1+n+1      catalog                 5.0.0 to 5.0.3, with a NUL
        3     2+2        auto_increment_increment, auto_increment_offset
        4     2+2+2      character_set_client, collation_connection, collation_server
        5     1+n        time_zone
        6     1+n        catalog                 from 5.0.4, without NUL
        7     2          lc_time_names
        8     2          character_set_database
        9     8          table_map_for_update    bit per table of a multi-table update
        10    4          master_data_written     size of the event on the origin
        11    1+n, 1+n   invoker_user, invoker_host
        12    1+c*(n+1)  updated_databases       count, NUL-terminated names; no names if over 16
        13    3          microseconds            of the start time
        14    8          commit_timestamp        5.7.1 to 5.7.4 only
        15    16         commit_timestamp2       never in a release
        16    1          explicit_defaults_for_timestamp
        17    8          ddl_xid                 commits an atomic DDL
        18    2          default_collation_for_utf8mb4
        19    1          sql_require_primary_key
        20    1          default_table_encryption
        128   3          microseconds            MariaDB
        129   8          ddl_xid                 MariaDB
        130   1 or 9     gtid_flags3, start_alter_sequence   MariaDB 10.8
        131   1+c*4      character_set_collations            MariaDB 11.2

    An unknown code ends the parsing; its code byte and all bytes after it are ``unparsed``.
    ``codes`` lists the codes met, in order. ``updated_databases`` is None with code 12 present when
    the server counted more than it lists (``updated_databases_count`` 254).

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


_INTEGERS = {
    0: ("flags2", 4),
    1: ("sql_mode", 8),
    7: ("lc_time_names", 2),
    8: ("character_set_database", 2),
    9: ("table_map_for_update", 8),
    10: ("master_data_written", 4),
    13: ("microseconds", 3),
    14: ("commit_timestamp", 8),
    16: ("explicit_defaults_for_timestamp", 1),
    17: ("ddl_xid", 8),
    18: ("default_collation_for_utf8mb4", 2),
    19: ("sql_require_primary_key", 1),
    20: ("default_table_encryption", 1),
    128: ("microseconds", 3),
    129: ("ddl_xid", 8),
}


def _short_string(block: ByteReader) -> bytes:
    return block.take(block.uint(1), "string")


def _parse_variable(code: int, block: ByteReader, found: dict[str, Any]) -> bool:
    """Parse a variable that is no plain integer; return False for an unknown code."""
    if code == 2:
        found["catalog"] = _short_string(block)
        block.skip(1)
    elif code == 3:
        found["auto_increment_increment"] = block.uint(2)
        found["auto_increment_offset"] = block.uint(2)
    elif code == 4:
        found["character_set_client"] = block.uint(2)
        found["collation_connection"] = block.uint(2)
        found["collation_server"] = block.uint(2)
    elif code == 5:
        found["time_zone"] = _short_string(block)
    elif code == 6:
        found["catalog"] = _short_string(block)
    elif code == 11:
        found["invoker_user"] = _short_string(block)
        found["invoker_host"] = _short_string(block)
    elif code == 12:
        count = found["updated_databases_count"] = block.uint(1)
        if count <= MAX_UPDATED_DATABASES:
            found["updated_databases"] = tuple(block.nul_string() for _ in range(count))
    elif code == 15:
        found["commit_timestamp2"] = (block.uint(8), block.uint(8))
    elif code == 130:
        found["gtid_flags3"] = block.uint(1)
        if found["gtid_flags3"] & _GTID_FLAGS3_WITH_SEQUENCE:
            found["start_alter_sequence"] = block.uint(8)
    elif code == 131:
        count = block.uint(1)
        found["character_set_collations"] = tuple(
            (block.uint(2), block.uint(2)) for _ in range(count)
        )
    else:
        return False
    return True


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
            if not _parse_variable(code, block, found):
                found["unparsed"] = data[at:]
                break
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
