"""Where the fields of events stand that the fast path reads without decoding, and what each type is.

Compiled modules take offsets, masks and functions from ``layout.pxd``, which has the same; a test compares
them. Offsets are from an event's first byte for the common header, and from behind that header for bodies.

Spec: MySQL ``binlog_event.h``, ``rows_event.h``, ``statement_events.h``, ``control_events.h``; MariaDB
``log_event.h``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Any, Final

from replica_client.constants.event_types import EventType

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

# GTID_LOG and ANONYMOUS_GTID_LOG. MySQL 5.6 ends before the clock; behind it are the commit timestamps.
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

# MariaDB's GTID. Behind the flags are the number of a group commit, where the flag says so, and further fields.
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

# TABLE_MAP and rows. The version 2 of rows has further data behind the flags, which count their own size.
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


class EventClass(IntEnum):
    """What an event is to its group (see :mod:`replica_client.position.groups`)."""

    UNKNOWN = 0
    """Of a type that is not known; ends no group."""
    OUTSIDE = 1
    """Of no transaction: what stands between them."""
    GTID = 2
    """Starts a group whose end the events behind it tell."""
    GTID_BEGIN = 3
    """Starts a group that a commit, rollback or prepare ends."""
    BEGIN = 4
    COMMIT = 5
    ROLLBACK = 6
    PREPARE = 7
    PART = 8
    """Belongs to the group and never ends it."""
    ANNOTATION = 9
    """A part that says what statement its rows are of."""
    TABLE_MAP = 10
    """A part that says what table rows are of."""
    STATEMENT = 11
    """Ends the group unless that began with a BEGIN."""
    PAYLOAD = 12
    """Holds the rest of the group, its end too."""
    LOAD_PART = 13
    """Data of a LOAD DATA, known by its ``file_id``, whose statement comes later."""
    LOAD_END = 14
    """The statement of a LOAD DATA with a ``file_id``."""
    ROWS = 15
    """A part; a statement where STMT_END_F is set."""
    QUERY = 16
    """Its text tells what it is."""
    QUERY_COMPRESSED = 17
    """Its text, which is compressed, tells what it is."""
    MARIADB_GTID = 18
    """Its flags tell whether it is a BEGIN, too."""
    XA_PREPARE = 19
    """A commit in one phase, or a prepare."""


_CLASSES: Final[Mapping[EventType, EventClass]] = MappingProxyType(
    {
        EventType.UNKNOWN_EVENT: EventClass.UNKNOWN,
        EventType.START_EVENT_V3: EventClass.OUTSIDE,
        EventType.QUERY_EVENT: EventClass.QUERY,
        EventType.STOP_EVENT: EventClass.OUTSIDE,
        EventType.ROTATE_EVENT: EventClass.OUTSIDE,
        EventType.INTVAR_EVENT: EventClass.PART,
        EventType.LOAD_EVENT: EventClass.STATEMENT,
        EventType.SLAVE_EVENT: EventClass.OUTSIDE,
        EventType.CREATE_FILE_EVENT: EventClass.LOAD_PART,
        EventType.APPEND_BLOCK_EVENT: EventClass.LOAD_PART,
        EventType.EXEC_LOAD_EVENT: EventClass.LOAD_END,
        EventType.DELETE_FILE_EVENT: EventClass.LOAD_END,
        EventType.NEW_LOAD_EVENT: EventClass.STATEMENT,
        EventType.RAND_EVENT: EventClass.PART,
        EventType.USER_VAR_EVENT: EventClass.PART,
        EventType.FORMAT_DESCRIPTION_EVENT: EventClass.OUTSIDE,
        EventType.XID_EVENT: EventClass.COMMIT,
        EventType.BEGIN_LOAD_QUERY_EVENT: EventClass.LOAD_PART,
        EventType.EXECUTE_LOAD_QUERY_EVENT: EventClass.LOAD_END,
        EventType.TABLE_MAP_EVENT: EventClass.TABLE_MAP,
        EventType.PRE_GA_WRITE_ROWS_EVENT: EventClass.ROWS,
        EventType.PRE_GA_UPDATE_ROWS_EVENT: EventClass.ROWS,
        EventType.PRE_GA_DELETE_ROWS_EVENT: EventClass.ROWS,
        EventType.WRITE_ROWS_EVENT_V1: EventClass.ROWS,
        EventType.UPDATE_ROWS_EVENT_V1: EventClass.ROWS,
        EventType.DELETE_ROWS_EVENT_V1: EventClass.ROWS,
        EventType.INCIDENT_EVENT: EventClass.STATEMENT,
        EventType.HEARTBEAT_LOG_EVENT: EventClass.OUTSIDE,
        EventType.IGNORABLE_LOG_EVENT: EventClass.OUTSIDE,
        EventType.ROWS_QUERY_LOG_EVENT: EventClass.ANNOTATION,
        EventType.WRITE_ROWS_EVENT: EventClass.ROWS,
        EventType.UPDATE_ROWS_EVENT: EventClass.ROWS,
        EventType.DELETE_ROWS_EVENT: EventClass.ROWS,
        EventType.GTID_LOG_EVENT: EventClass.GTID,
        EventType.ANONYMOUS_GTID_LOG_EVENT: EventClass.GTID,
        EventType.PREVIOUS_GTIDS_LOG_EVENT: EventClass.OUTSIDE,
        EventType.TRANSACTION_CONTEXT_EVENT: EventClass.PART,
        EventType.VIEW_CHANGE_EVENT: EventClass.PART,
        EventType.XA_PREPARE_LOG_EVENT: EventClass.XA_PREPARE,
        EventType.PARTIAL_UPDATE_ROWS_EVENT: EventClass.ROWS,
        EventType.TRANSACTION_PAYLOAD_EVENT: EventClass.PAYLOAD,
        EventType.HEARTBEAT_LOG_EVENT_V2: EventClass.OUTSIDE,
        EventType.GTID_TAGGED_LOG_EVENT: EventClass.GTID,
        EventType.ANNOTATE_ROWS_EVENT: EventClass.ANNOTATION,
        EventType.BINLOG_CHECKPOINT_EVENT: EventClass.OUTSIDE,
        EventType.GTID_EVENT: EventClass.MARIADB_GTID,
        EventType.GTID_LIST_EVENT: EventClass.OUTSIDE,
        EventType.START_ENCRYPTION_EVENT: EventClass.OUTSIDE,
        EventType.QUERY_COMPRESSED_EVENT: EventClass.QUERY_COMPRESSED,
        EventType.WRITE_ROWS_COMPRESSED_EVENT_V1: EventClass.ROWS,
        EventType.UPDATE_ROWS_COMPRESSED_EVENT_V1: EventClass.ROWS,
        EventType.DELETE_ROWS_COMPRESSED_EVENT_V1: EventClass.ROWS,
        EventType.WRITE_ROWS_COMPRESSED_EVENT: EventClass.ROWS,
        EventType.UPDATE_ROWS_COMPRESSED_EVENT: EventClass.ROWS,
        EventType.DELETE_ROWS_COMPRESSED_EVENT: EventClass.ROWS,
    }
)
"""The class of each type: the one table of them."""

_FORMS: Final[Mapping[EventType, int]] = MappingProxyType(
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


def _by_code(values: Mapping[EventType, int]) -> bytes:
    table = bytearray(256)
    for code, value in values.items():
        table[code] = value
    return bytes(table)


CLASSES: Final = _by_code(_CLASSES)
""":class:`EventClass` by type code; UNKNOWN for codes that are none."""

ROWS_FORMS: Final = _by_code(_FORMS)
"""By type code of rows: the kind of change, whether the version has further data, whether its images are
compressed, and ``ROWS_OTHER`` where it is of before 5.1 or has parts of documents. 0 for all other types."""


def types_of(*classes: EventClass) -> frozenset[int]:
    """The type codes of some classes."""
    return frozenset(int(code) for code, kind in _CLASSES.items() if kind in classes)


ROWS_TYPES: Final = types_of(EventClass.ROWS)
"""Type codes of rows events."""


def query_text(data: Any, body: int) -> int:
    """The offset of the text of a QUERY event whose body begins there.

    Behind the post-header stand status variables and the database with a NUL behind it.
    """
    status: int = (
        data[body + QUERY_STATUS_SIZE_OFFSET] | data[body + QUERY_STATUS_SIZE_OFFSET + 1] << 8
    )
    database: int = data[body + QUERY_DATABASE_SIZE_OFFSET]
    return body + QUERY_POST_HEADER_SIZE + database + 1 + status


def rows_columns(data: Any, body: int, form: int) -> int:
    """The offset of the number of columns in a rows event whose body begins there, of one of ROWS_FORMS."""
    at = body + ROWS_POST_HEADER_SIZE
    extra: int = data[at] | data[at + 1] << 8 if form & ROWS_EXTRA else 0
    return at + extra
