"""The grammar of event groups: how each event changes the state of its transaction.

A group is what the source committed as one: a transaction, or a single statement that needs none.

* MySQL: ``GTID (BEGIN … XID | COMMIT | ROLLBACK | XA_PREPARE)`` or ``GTID statement``; the GTID is
  missing before 5.6. A TRANSACTION_PAYLOAD holds everything after the GTID.
* MariaDB: the GTID event is the BEGIN, unless it is marked FL_STANDALONE; 5.x as MySQL 5.x.
* Outside BEGIN, a statement is one QUERY with the INTVAR, RAND, USER_VAR and LOAD DATA events
  before it, or rows up to the one that carries STMT_END_F.

The tracker, the scans and the fast path all ask :func:`step`. Compiled modules inline ``groups.pxd``
instead of the functions that are in it; the table is the same.

Spec: MySQL ``Transaction_boundary_parser`` (rpl_trx_boundary_parser.cc); MariaDB
``Log_event::is_part_of_group`` (log_event.h).
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Any, Final

from replica_client.protocol.binlog.event import BinlogEvent
from replica_client.protocol.binlog.layout import (
    CLASSES,
    MARIADB_STANDALONE,
    QUERY_POST_HEADER_SIZE,
    EventClass,
    query_text,
    types_of,
)

_STMT_END_F = 0x01
# Longer texts that begin with another letter than those of ROLLBACK and XA are no control of transactions.
_SHORT_TEXT: Final = 8
_CONTROLS: Final = b"RrXx"
# To a savepoint; before MySQL 5.5 as the client wrote it.
_ROLLBACK_TO = re.compile(
    rb"ROLLBACK(?:\s|/\*.*?\*/)++(?:WORK(?:\s|/\*.*?\*/)++)?TO\b", re.IGNORECASE | re.DOTALL
)

MIDDLE: Final = types_of(EventClass.ROWS, EventClass.TABLE_MAP)
"""Types that change nothing in a group that began with a BEGIN."""


class State(IntEnum):
    """The state of a group of events after one of its events."""

    BETWEEN = 0
    """None is open."""
    NAMED = 1
    """Only its GTID was there."""
    OPEN = 2
    """It has a GTID, and a commit, rollback or prepare ends it."""
    PAYLOAD = 3
    """The payload that holds the rest of it was there."""
    PAYLOAD_OPEN = 4
    """It began inside the payload."""
    BEGUN = 5
    """It has no GTID, and a commit, rollback or prepare ends it."""
    NAMED_PARTS = 6
    """Parts followed its GTID; the next statement ends it."""
    PARTS = 7
    """Parts of it were there and no GTID; the next statement ends it."""


class Ending(IntEnum):
    """Bits that :func:`step` returns with the state."""

    STATE = 7
    """These bits are the state."""
    ENDS = 8
    """The group ends with this event."""
    COMPLETE = 16
    """The group before, in a payload, was complete; another begins with this event."""
    ABANDONED = 32
    """The source never finished the group before; another begins with this event."""
    UNCERTAIN = 64
    """The class does not tell enough: a text or a flag has to be looked at."""


_PARTS = (
    EventClass.UNKNOWN,
    EventClass.PART,
    EventClass.ANNOTATION,
    EventClass.TABLE_MAP,
    EventClass.LOAD_PART,
)
_STATEMENTS = (EventClass.STATEMENT, EventClass.LOAD_END)
_ENDS = (EventClass.COMMIT, EventClass.ROLLBACK, EventClass.PREPARE)
_BEGUN = (State.OPEN, State.BEGUN, State.PAYLOAD_OPEN)
_IN_PAYLOAD = (State.PAYLOAD, State.PAYLOAD_OPEN)
_BEHIND_PART = {State.BETWEEN: State.PARTS, State.NAMED: State.NAMED_PARTS}
_BEHIND_BEGIN = {
    State.BETWEEN: State.BEGUN,
    State.PARTS: State.BEGUN,
    State.NAMED: State.OPEN,
    State.NAMED_PARTS: State.OPEN,
    State.PAYLOAD: State.PAYLOAD_OPEN,
    State.BEGUN: State.BEGUN | Ending.ABANDONED,
}


def _behind(state: State, event_class: EventClass) -> int:
    """Return the state after an event, with the bits of how a group ended."""
    if event_class in (EventClass.GTID, EventClass.GTID_BEGIN):
        named = State.NAMED if event_class is EventClass.GTID else State.OPEN
        if state is State.BETWEEN:
            return named
        return named | (Ending.COMPLETE if state in _IN_PAYLOAD else Ending.ABANDONED)
    if event_class in _ENDS:
        return State.BETWEEN | Ending.ENDS
    if event_class in _STATEMENTS:
        return state if state in _BEGUN else State.BETWEEN | Ending.ENDS
    if event_class in _PARTS:
        return _BEHIND_PART.get(state, state)
    match event_class:
        case EventClass.OUTSIDE:
            return state
        case EventClass.BEGIN:
            return _BEHIND_BEGIN.get(state, state)
        case EventClass.PAYLOAD:
            begun = state in _BEGUN
            return State.PAYLOAD_OPEN if begun else State.PAYLOAD
        case EventClass.ROWS if state in _BEGUN:
            return state
    return Ending.UNCERTAIN


def _table() -> bytes:
    table = bytearray(256)
    for state in State:
        for event_class in EventClass:
            table[state << 5 | event_class] = _behind(state, event_class)
    return bytes(table)


STEPS: Final = _table()
"""The table that :func:`step` reads."""


def step(steps: Any, state: int, event_class: int) -> int:
    """Return the :class:`State` after an event of a class, with the bits of :class:`Ending`.

    Args:
        steps: :data:`STEPS`.
        state: before the event.
        event_class: of the event; :func:`class_of` determines it where the type is not enough.
    """
    found: int = steps[state << 5 | event_class]
    return found


def control_of(data: Any, body: int, end: int) -> int:
    """BEGIN or COMMIT for a QUERY event, from ``body`` to ``end``, with just that text; else QUERY.

    Text in another form (``begin``, ``XA START``) is for :func:`query_class`.
    """
    if end < body + QUERY_POST_HEADER_SIZE:
        return EventClass.QUERY
    text = query_text(data, body)
    if not (text + 5 <= end <= text + 6) or data[text - 1]:
        return EventClass.QUERY
    known = bytes(data[text:end])
    if known == b"BEGIN":
        return EventClass.BEGIN
    return EventClass.COMMIT if known == b"COMMIT" else EventClass.QUERY


def is_plain_statement(data: Any, text: int, end: int) -> bool:
    """Return whether the QUERY event's text from ``text`` to ``end`` is a statement by its first byte and length.

    :func:`query_class` need not look at such a text. The byte before it is the NUL of its default
    database.
    """
    return end > text + _SHORT_TEXT and not data[text - 1] and data[text] not in _CONTROLS


_CLASS_OF: Final = tuple(map(EventClass, CLASSES))


def class_of(event: BinlogEvent) -> EventClass:
    """Return the class of an event in its group; an event of an unknown type ends no group."""
    found = _CLASS_OF[event.header.type_code]
    match found:
        case EventClass.ROWS:
            ends = event.body.flags & _STMT_END_F
            return EventClass.STATEMENT if ends else EventClass.PART
        case EventClass.QUERY | EventClass.QUERY_COMPRESSED:
            return query_class(event.body.query)
        case EventClass.XA_PREPARE:
            return EventClass.COMMIT if event.body.one_phase else EventClass.PREPARE
        case EventClass.MARIADB_GTID:
            alone = event.body.flags & MARIADB_STANDALONE
            return EventClass.GTID if alone else EventClass.GTID_BEGIN
    return found


def query_class(query: bytes) -> EventClass:
    """Return the class of a QUERY event in its group, by its text."""
    if len(query) > _SHORT_TEXT and query[0] not in _CONTROLS:
        return EventClass.STATEMENT
    text = query[:16].upper()
    if text == b"BEGIN" or text.startswith(b"XA START"):
        return EventClass.BEGIN
    if text == b"COMMIT" or text.startswith(b"XA COMMIT"):
        return EventClass.COMMIT
    if text.startswith(b"XA ROLLBACK"):
        return EventClass.ROLLBACK
    if text.startswith(b"ROLLBACK") and _ROLLBACK_TO.match(query) is None:
        return EventClass.ROLLBACK
    return EventClass.STATEMENT
