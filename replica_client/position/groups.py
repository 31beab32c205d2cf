"""What an event does to the transaction that it is in: the grammar of event groups.

A group is what the source committed as one: a transaction, or a single statement that needs none.

* MySQL: ``GTID (BEGIN … XID | COMMIT | ROLLBACK | XA_PREPARE)`` or ``GTID statement``; the GTID is
  missing before 5.6. A TRANSACTION_PAYLOAD holds everything behind the GTID.
* MariaDB: the GTID event is the BEGIN, unless it is marked FL_STANDALONE; 5.x as MySQL 5.x.
* Outside BEGIN, a statement is one QUERY with the INTVAR, RAND, USER_VAR and LOAD DATA events
  before it, or rows up to the one that carries STMT_END_F.

Spec: MySQL ``Transaction_boundary_parser`` (rpl_trx_boundary_parser.cc); MariaDB
``Log_event::is_part_of_group`` (log_event.h).
"""

from __future__ import annotations

import re
from enum import Enum, auto

from replica_client.binlog.event import BinlogEvent
from replica_client.constants.event_types import EventType

_FL_STANDALONE = 0x01
_STMT_END_F = 0x01
# To a savepoint; before MySQL 5.5 as the client wrote it.
_ROLLBACK_TO = re.compile(
    rb"ROLLBACK(?:\s|/\*.*?\*/)++(?:WORK(?:\s|/\*.*?\*/)++)?TO\b", re.IGNORECASE | re.DOTALL
)


class Role(Enum):
    """What an event is to its group."""

    OUTSIDE = auto()
    """Of no transaction: what stands between them."""
    GTID = auto()
    """Starts a group whose end the events behind it tell."""
    GTID_BEGIN = auto()
    """Starts a group that a commit, rollback or prepare ends."""
    BEGIN = auto()
    COMMIT = auto()
    ROLLBACK = auto()
    PREPARE = auto()
    PART = auto()
    """Belongs to the group and never ends it."""
    STATEMENT = auto()
    """Ends the group unless that began with a BEGIN."""
    PAYLOAD = auto()
    """Holds the rest of the group, its end too."""
    LOAD_PART = auto()
    """Data of a LOAD DATA, known by its ``file_id``, whose statement comes later."""
    LOAD_END = auto()
    """The statement of a LOAD DATA with a ``file_id``."""


_ROLES: dict[int, Role] = {
    **dict.fromkeys(
        (
            EventType.START_EVENT_V3,
            EventType.STOP_EVENT,
            EventType.ROTATE_EVENT,
            EventType.SLAVE_EVENT,
            EventType.FORMAT_DESCRIPTION_EVENT,
            EventType.HEARTBEAT_LOG_EVENT,
            EventType.HEARTBEAT_LOG_EVENT_V2,
            EventType.PREVIOUS_GTIDS_LOG_EVENT,
            EventType.IGNORABLE_LOG_EVENT,
            EventType.BINLOG_CHECKPOINT_EVENT,
            EventType.GTID_LIST_EVENT,
            EventType.START_ENCRYPTION_EVENT,
        ),
        Role.OUTSIDE,
    ),
    **dict.fromkeys(
        (
            EventType.GTID_LOG_EVENT,
            EventType.ANONYMOUS_GTID_LOG_EVENT,
            EventType.GTID_TAGGED_LOG_EVENT,
        ),
        Role.GTID,
    ),
    **dict.fromkeys(
        (
            EventType.INTVAR_EVENT,
            EventType.RAND_EVENT,
            EventType.USER_VAR_EVENT,
            EventType.TABLE_MAP_EVENT,
            EventType.ROWS_QUERY_LOG_EVENT,
            EventType.ANNOTATE_ROWS_EVENT,
            EventType.TRANSACTION_CONTEXT_EVENT,
            EventType.VIEW_CHANGE_EVENT,
        ),
        Role.PART,
    ),
    **dict.fromkeys(
        (EventType.LOAD_EVENT, EventType.NEW_LOAD_EVENT, EventType.INCIDENT_EVENT),
        Role.STATEMENT,
    ),
    **dict.fromkeys(
        (
            EventType.CREATE_FILE_EVENT,
            EventType.APPEND_BLOCK_EVENT,
            EventType.BEGIN_LOAD_QUERY_EVENT,
        ),
        Role.LOAD_PART,
    ),
    **dict.fromkeys(
        (
            EventType.EXEC_LOAD_EVENT,
            EventType.DELETE_FILE_EVENT,
            EventType.EXECUTE_LOAD_QUERY_EVENT,
        ),
        Role.LOAD_END,
    ),
    EventType.XID_EVENT: Role.COMMIT,
    EventType.TRANSACTION_PAYLOAD_EVENT: Role.PAYLOAD,
}

_ROWS = frozenset(
    int(code)
    for code in (
        EventType.PRE_GA_WRITE_ROWS_EVENT,
        EventType.PRE_GA_UPDATE_ROWS_EVENT,
        EventType.PRE_GA_DELETE_ROWS_EVENT,
        EventType.WRITE_ROWS_EVENT_V1,
        EventType.UPDATE_ROWS_EVENT_V1,
        EventType.DELETE_ROWS_EVENT_V1,
        EventType.WRITE_ROWS_EVENT,
        EventType.UPDATE_ROWS_EVENT,
        EventType.DELETE_ROWS_EVENT,
        EventType.PARTIAL_UPDATE_ROWS_EVENT,
        EventType.WRITE_ROWS_COMPRESSED_EVENT_V1,
        EventType.UPDATE_ROWS_COMPRESSED_EVENT_V1,
        EventType.DELETE_ROWS_COMPRESSED_EVENT_V1,
        EventType.WRITE_ROWS_COMPRESSED_EVENT,
        EventType.UPDATE_ROWS_COMPRESSED_EVENT,
        EventType.DELETE_ROWS_COMPRESSED_EVENT,
    )
)


MIDDLE = _ROWS | {int(EventType.TABLE_MAP_EVENT)}
"""Types that change nothing in a group that began with a BEGIN."""


def role_of(event: BinlogEvent) -> Role:
    """What an event is to its group; an unknown type ends none."""
    code = event.header.type_code
    if code in _ROWS:
        return Role.STATEMENT if event.body.flags & _STMT_END_F else Role.PART
    role = _ROLES.get(code)
    if role is not None:
        return role
    if code in (EventType.QUERY_EVENT, EventType.QUERY_COMPRESSED_EVENT):
        return query_role(event.body.query)
    if code == EventType.XA_PREPARE_LOG_EVENT:
        return Role.COMMIT if event.body.one_phase else Role.PREPARE
    if code == EventType.GTID_EVENT:
        return Role.GTID if event.body.flags & _FL_STANDALONE else Role.GTID_BEGIN
    return Role.PART


def query_role(query: bytes) -> Role:
    """What a QUERY event's text is to its group."""
    if len(query) > 8 and query[:1] not in b"RrXx":
        return Role.STATEMENT
    text = query[:16].upper()
    if text == b"BEGIN" or text.startswith(b"XA START"):
        return Role.BEGIN
    if text == b"COMMIT" or text.startswith(b"XA COMMIT"):
        return Role.COMMIT
    if text.startswith(b"XA ROLLBACK"):
        return Role.ROLLBACK
    if text.startswith(b"ROLLBACK") and _ROLLBACK_TO.match(query) is None:
        return Role.ROLLBACK
    return Role.STATEMENT
