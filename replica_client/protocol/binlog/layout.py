"""Offsets of the fields that the fast path reads without decoding, and the role of each type.

Compiled modules use ``layout.pxd``, which has the same constants and functions; a test compares
them. Offsets in the common header count from the event's first byte, offsets in bodies from the end
of that header.

Spec: MySQL ``binlog_event.h``, ``rows_event.h``, ``statement_events.h``, ``control_events.h``;
MariaDB ``log_event.h``.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from replica_client.protocol.constants.event_types import (
    EVENTS,
    EventClass as EventClass,
    EventType,
)

# The common header.
HEADER_SIZE = 19
TIMESTAMP_OFFSET = 0
TYPE_OFFSET = 4
SERVER_ID_OFFSET = 5
EVENT_SIZE_OFFSET = 9
NEXT_POSITION_OFFSET = 13
FLAGS_OFFSET = 17
ARTIFICIAL_FLAG = 0x20
CHECKSUM_SIZE = 4

# GTID_LOG and ANONYMOUS_GTID_LOG. MySQL 5.6 ends before the clock; commit timestamps follow it.
GTID_FLAGS_OFFSET = 0
GTID_SID_OFFSET = 1
GTID_SID_SIZE = 16
GTID_NUMBER_OFFSET = 17
GTID_NUMBER_SIGN_OFFSET = 24
GTID_CLOCK_OFFSET = 25
GTID_LAST_COMMITTED_OFFSET = 26
GTID_SEQUENCE_OFFSET = 34
GTID_TIMESTAMP_OFFSET = 42
GTID_TIMESTAMP_SIZE = 7
GTID_VERSION_SIZE = 4
GTID_TICKET_SIZE = 8
LOGICAL_CLOCK = 2
SIGN_BIT = 0x80

# MariaDB's GTID. After the flags: the number of a group commit, if its flag is set; more fields.
MARIADB_SEQUENCE_OFFSET = 0
MARIADB_SEQUENCE_SIGN_OFFSET = 7
MARIADB_DOMAIN_OFFSET = 8
MARIADB_FLAGS_OFFSET = 12
MARIADB_FIELDS_OFFSET = 13
MARIADB_COMMIT_ID_SIZE = 8
MARIADB_GTID_SIZE = 19
MARIADB_STANDALONE = 0x01
MARIADB_COMMIT_ID = 0x02
MARIADB_UNUSUAL = 0xE1  # standalone, DDL, XA PREPARE, XA COMMIT or ROLLBACK
MARIADB_THREAD_ID = 0x10  # of the further flags
MARIADB_THREAD_ID_SIZE = 4

# QUERY.
QUERY_THREAD_OFFSET = 0
QUERY_EXEC_TIME_OFFSET = 4
QUERY_DATABASE_SIZE_OFFSET = 8
QUERY_STATUS_SIZE_OFFSET = 11
QUERY_POST_HEADER_SIZE = 13

# TABLE_MAP and rows. Rows of version 2 have extra data after the flags; its length includes itself.
TABLE_ID_SIZE = 6
TABLE_MAP_POST_HEADER_SIZE = 8
ROWS_FLAGS_OFFSET = 6
ROWS_POST_HEADER_SIZE = 8
ROWS_EXTRA_SIZE = 2
PARTITION_INSERT_SIZE = 5
PARTITION_UPDATE_SIZE = 7

XID_SIZE = 8

# Length-encoded integers.
LENGTH_NULL = 251
LENGTH_2_BYTES = 252
LENGTH_3_BYTES = 253
LENGTH_8_BYTES = 254
LENGTH_ERROR = 255

# Bits of ROWS_FORMS.
ROWS_KIND = 0x03
ROWS_EXTRA = 0x04
ROWS_COMPRESSED = 0x08
ROWS_OTHER = 0x10

# Values of ROWS_KIND.
INSERT = 0
UPDATE = 1
DELETE = 2

_FORMS: Final[Mapping[int, int]] = MappingProxyType(
    {
        EventType.PRE_GA_WRITE_ROWS_EVENT: INSERT | ROWS_OTHER,
        EventType.PRE_GA_UPDATE_ROWS_EVENT: UPDATE | ROWS_OTHER,
        EventType.PRE_GA_DELETE_ROWS_EVENT: DELETE | ROWS_OTHER,
        EventType.WRITE_ROWS_EVENT_V1: INSERT,
        EventType.UPDATE_ROWS_EVENT_V1: UPDATE,
        EventType.DELETE_ROWS_EVENT_V1: DELETE,
        EventType.WRITE_ROWS_EVENT: INSERT | ROWS_EXTRA,
        EventType.UPDATE_ROWS_EVENT: UPDATE | ROWS_EXTRA,
        EventType.DELETE_ROWS_EVENT: DELETE | ROWS_EXTRA,
        EventType.PARTIAL_UPDATE_ROWS_EVENT: UPDATE | ROWS_EXTRA | ROWS_OTHER,
        EventType.WRITE_ROWS_COMPRESSED_EVENT_V1: INSERT | ROWS_COMPRESSED,
        EventType.UPDATE_ROWS_COMPRESSED_EVENT_V1: UPDATE | ROWS_COMPRESSED,
        EventType.DELETE_ROWS_COMPRESSED_EVENT_V1: DELETE | ROWS_COMPRESSED,
        EventType.WRITE_ROWS_COMPRESSED_EVENT: INSERT | ROWS_EXTRA | ROWS_COMPRESSED,
        EventType.UPDATE_ROWS_COMPRESSED_EVENT: UPDATE | ROWS_EXTRA | ROWS_COMPRESSED,
        EventType.DELETE_ROWS_COMPRESSED_EVENT: DELETE | ROWS_EXTRA | ROWS_COMPRESSED,
    }
)


def _by_code(values: Mapping[int, int]) -> bytes:
    table = bytearray(256)
    for code, value in values.items():
        table[code] = value
    return bytes(table)


CLASSES: Final = _by_code({code: role for code, (_, role) in EVENTS.items()})
""":class:`EventClass` by type code; UNKNOWN for unknown codes."""

ROWS_FORMS: Final = _by_code(_FORMS)
"""Bits by type code of rows events: the kind of change, extra data, compressed images, and
``ROWS_OTHER`` for versions before 5.1 and partial JSON documents. 0 for all other types."""


def types_of(*classes: EventClass) -> frozenset[int]:
    """Return the type codes of some classes."""
    return frozenset(int(code) for code, (_, role) in EVENTS.items() if role in classes)


ROWS_TYPES: Final = types_of(EventClass.ROWS)
"""Type codes of rows events."""


def query_text(data: Any, body: int) -> int:
    """Return the offset of the text in a QUERY event whose body begins at `body`.

    The text follows the status variables, the database's name and a NUL.
    """
    status: int = (
        data[body + QUERY_STATUS_SIZE_OFFSET] | data[body + QUERY_STATUS_SIZE_OFFSET + 1] << 8
    )
    database: int = data[body + QUERY_DATABASE_SIZE_OFFSET]
    return body + QUERY_POST_HEADER_SIZE + database + 1 + status


def rows_columns(data: Any, body: int, form: int) -> int:
    """Return the offset of the number of columns in a rows event whose body begins at `body`.

    `form` is the event's entry in ROWS_FORMS.
    """
    at = body + ROWS_POST_HEADER_SIZE
    extra: int = data[at] | data[at + 1] << 8 if form & ROWS_EXTRA else 0
    return at + extra
