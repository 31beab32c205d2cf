# cython: boundscheck=False, wraparound=False, cdivision=True
"""The lines of the events of ordinary transactions, without event objects.

They are those of :mod:`replica_client.cli.event_lines`, which writes all other events, and the fields
that are the same in many.

This module is compiled where that is possible and runs as it stands everywhere else.
"""

# Over 500 lines: one compiled class, whose methods share C fields that no other module may reach
# at this speed.

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cython

from replica_client.cli.event_lines import COLUMNS, SUMMARY_SIZE, FieldTexts, json_line, plain_line
from replica_client.cli.output import clock
from replica_client.errors import BinlogDecodeError
from replica_client.protocol.binlog.event import BinlogEvent
from replica_client.protocol.binlog.events.query_status import xid_offset
from replica_client.protocol.binlog.values.strings import is_utf8
from replica_client.protocol.codec.compression import SizedCache
from replica_client.protocol.codec.printable import printable
from replica_client.protocol.constants.event_types import EventType, event_type_name
from replica_client.protocol.gtid import format_uuid
from replica_client.rows.value_text import quoted
from replica_client.stream.fast.event_fast_path import EventTables

if not cython.compiled:
    from replica_client.protocol.binlog.layout import (
        CHECKSUM_SIZE,
        FLAGS_OFFSET,
        GTID_CLOCK_OFFSET,
        GTID_FLAGS_OFFSET,
        GTID_LAST_COMMITTED_OFFSET,
        GTID_NUMBER_OFFSET,
        GTID_SEQUENCE_OFFSET,
        GTID_SID_OFFSET,
        GTID_SID_SIZE,
        GTID_TIMESTAMP_OFFSET,
        HEADER_SIZE,
        LOGICAL_CLOCK,
        MARIADB_COMMIT_ID,
        MARIADB_COMMIT_ID_SIZE,
        MARIADB_DOMAIN_OFFSET,
        MARIADB_FIELDS_OFFSET,
        MARIADB_FLAGS_OFFSET,
        MARIADB_SEQUENCE_OFFSET,
        NEXT_POSITION_OFFSET,
        QUERY_DATABASE_SIZE_OFFSET,
        QUERY_EXEC_TIME_OFFSET,
        QUERY_POST_HEADER_SIZE,
        QUERY_THREAD_OFFSET,
        ROWS_EXTRA,
        ROWS_EXTRA_SIZE,
        ROWS_FLAGS_OFFSET,
        ROWS_KIND,
        ROWS_POST_HEADER_SIZE,
        SERVER_ID_OFFSET,
        TABLE_ID_SIZE,
        TABLE_MAP_POST_HEADER_SIZE,
        TIMESTAMP_OFFSET,
        TYPE_OFFSET,
        UPDATE,
        XID_SIZE,
        EventClass,
        query_text,
        rows_columns,
    )
    from replica_client.protocol.codec.memory import (
        copy_bytes,
        load_le,
        load_signed,
        put_digits,
        same_bytes,
    )
    from replica_client.rows.value_text import ValueText
    from replica_client.stream.fast.event_fast_path import EventFastPath
    from replica_client.stream.fast.tagged_gtid import GtidTail

if TYPE_CHECKING:
    from replica_client.protocol.binlog.decoder import BinlogDecoder
    from replica_client.stream.position.tracker import PositionTracker
    from replica_client.stream.transactions.event_feed import EventFeed, LocatedEvent

_QUERY = cython.declare(cython.int, int(EventType.QUERY_EVENT))
_ANONYMOUS = cython.declare(cython.int, int(EventType.ANONYMOUS_GTID_LOG_EVENT))
_MARIADB_GTID = cython.declare(cython.int, int(EventType.GTID_EVENT))
_HEX = b"0123456789abcdef"
_TAGGED = cython.declare(cython.int, int(EventType.GTID_TAGGED_LOG_EVENT))
_TABLE_MAP = cython.declare(cython.int, int(EventType.TABLE_MAP_EVENT))
_NO_XID = bytes(8)
# BEGIN, COMMIT and the like come again and again, whole.
_LONGEST_CONTROL = cython.declare(cython.Py_ssize_t, 8)
_MAX_TEXTS = 4096
_MAX_TABLES = 10_000
_MAX_TABLE_BYTES = 16 << 20
_MAX_ID_DIGITS = 15
_LONG_BODY = cython.declare(cython.Py_ssize_t, 4096)
_KINDS = (b"insert", b"update", b"delete")
_NAMES_OF_PAIRS = (
    b', "immediate_commit_timestamp": ',
    b', "original_commit_timestamp": ',
    b', "transaction_length": ',
    b', "immediate_server_version": ',
    b', "original_server_version": ',
    b', "commit_group_ticket": ',
)


@cython.final
@cython.cclass
class EventText(EventFastPath):
    """Writes the lines of events.

    Args:
        feed: the decoder and the tracker.
        json: as JSON objects, else for people.

    Attributes:
        text: what was written.
    """

    def __init__(self, feed: EventFeed, *, json: bool) -> None:
        tables = EventTables()
        EventFastPath.__init__(self, feed, tables, tables)
        self._takes_statements = True
        self.text: ValueText = ValueText()
        self._json = json
        self._fields: Any = FieldTexts(json=json)
        self._types: list[Any] = [None] * 256
        self._file_known = ""
        self._file_text = b""
        self._time_known = -1
        self._time_text = b""
        # Of table maps by their body behind the id, which a server changes each time that it opens the
        # table: what stands before the id and behind it.
        self._maps: SizedCache[bytes, tuple[bytes, bytes]] = SizedCache(
            _MAX_TABLES, _MAX_TABLE_BYTES, small=0
        )
        self._long_maps: dict[bytes, bytes] = {}
        # What is written behind the names of tables, by the flags and what their table maps have there.
        self._columns: SizedCache[bytes, bytes] = SizedCache(_MAX_TEXTS, _MAX_TABLE_BYTES, small=0)
        self._queries: dict[bytes, bytes] = {}
        # Of statements by what stands before their text, without the number that each DDL has: what is written
        # before the number and behind it, and where it is. By the size of that, where the number was last.
        self._statements: dict[bytes, tuple[bytes, bytes, int]] = {}
        self._xids: dict[int, int] = {}
        self._heads: dict[bytes, bytes] = {}
        self._tails: dict[bytes, bytes] = {}
        self._gtid_tail: GtidTail = GtidTail()
        self._sid = b""
        self._uuid = b""

    def feed(
        self, located: LocatedEvent, decoder: BinlogDecoder, tracker: PositionTracker
    ) -> tuple[()]:
        """Write an event that is not of an ordinary transaction."""
        self._write(located.event)
        return ()

    def _write(self, event: BinlogEvent) -> None:
        self.text.line(json_line(event) if self._json else plain_line(event))

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _event(
        self,
        raw: cython.p_const_uchar,
        at: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        offset: cython.longlong,
        tail: cython.Py_ssize_t,
        inner_index: cython.Py_ssize_t,
    ) -> cython.int:
        text: ValueText = self.text
        begun: cython.Py_ssize_t = text.used
        if self._json:
            self._json_head(raw, at, end, offset, tail, inner_index)
        else:
            self._plain_head(raw, at, end, offset, inner_index)
        try:
            is_written: cython.bint = self._put_fields(raw, at, end - tail)
        except BinlogDecodeError:
            is_written = False  # the full decoder tells where
        except BaseException:
            text.used = begun
            raise
        if not is_written:
            text.used = begun
            self._write(self._decoded(bytes(raw[at:end]), offset, inner_index))
            return 0
        text.reserve(2)
        if self._json:
            text.out[text.used] = 125
            text.used += 1
        else:
            while text.used > begun and text.out[text.used - 1] == 32:
                text.used -= 1
        text.out[text.used] = 10
        text.used += 1
        return 0

    def _decoded(self, data: bytes, offset: int, inner_index: int) -> BinlogEvent:
        decoder = self._feed.decoder
        if inner_index < 0:
            event: BinlogEvent = decoder.decode(data, offset, self._file)
            return event
        inner: BinlogEvent = decoder.decode_inner(data, offset, self._file, inner_index)
        return inner

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _json_head(
        self,
        raw: cython.p_const_uchar,
        at: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        offset: cython.longlong,
        tail: cython.Py_ssize_t,
        inner_index: cython.Py_ssize_t,
    ) -> cython.int:
        text: ValueText = self.text
        code: cython.int = raw[at + TYPE_OFFSET]
        out: cython.p_uchar
        i: cython.int
        digits: bytes = _HEX
        table: cython.p_const_uchar = digits
        if self._file is not self._file_known:
            self._file_known = self._file
            self._file_text = self._json_file()
        text.put(self._file_text)
        text.put_number(offset)
        text.put(b', "size": ')
        text.put_number(end - at)
        if self._types[code] is None:
            name = f', "type": "{event_type_name(code)}", "type_code": {code}, "timestamp": '
            self._types[code] = name.encode()
        text.put(cython.cast(bytes, self._types[code]))
        text.put_number(load_le(raw, at + TIMESTAMP_OFFSET, 4))
        text.put(b', "server_id": ')
        text.put_number(load_le(raw, at + SERVER_ID_OFFSET, 4))
        text.put(b', "next_position": ')
        text.put_number(load_le(raw, at + NEXT_POSITION_OFFSET, 4))
        text.put(b', "flags": ')
        text.put_number(load_le(raw, at + FLAGS_OFFSET, 2))
        if tail:
            text.put(b', "checksum": "')
            out = text.out
            for i in range(CHECKSUM_SIZE):
                out[text.used + 2 * i] = table[raw[end - 1 - i] >> 4]
                out[text.used + 2 * i + 1] = table[raw[end - 1 - i] & 15]
            text.used += 2 * CHECKSUM_SIZE
            text.put(b'"')
        else:
            text.put(b', "checksum": null')
        if inner_index >= 0:
            text.put(b', "inner_index": ')
            text.put_number(inner_index)
        return text.put(b', "fields": ')

    def _json_file(self) -> bytes:
        return b'{"file": ' + quoted(self._file) + b', "position": '

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _put_cell(self, number: cython.longlong) -> cython.int:
        """Write a number and two spaces; a terminal's columns are not made here."""
        text: ValueText = self.text
        text.reserve(64)
        digits: cython.uchar[24]
        if not cython.compiled:
            digits = bytearray(24)
        count: cython.Py_ssize_t = put_digits(digits, 0, number)
        copy_bytes(text.out, text.used, digits, 0, count)
        text.used += count
        text.out[text.used] = 32
        text.out[text.used + 1] = 32
        text.used += 2
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _plain_head(
        self,
        raw: cython.p_const_uchar,
        at: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        offset: cython.longlong,
        inner_index: cython.Py_ssize_t,
    ) -> cython.int:
        text: ValueText = self.text
        code: cython.int = raw[at + TYPE_OFFSET]
        timestamp: cython.longlong = load_le(raw, at + TIMESTAMP_OFFSET, 4)
        if self._file is not self._file_known:
            self._file_known = self._file
            file = COLUMNS[0].pad(printable(self._file))
            self._file_text = f"{file}  ".encode("utf-8", "backslashreplace")
        if timestamp != self._time_known:
            self._time_known = timestamp
            self._time_text = f"{COLUMNS[4].pad(clock(timestamp))}  ".encode()
        if self._types[code] is None:
            self._types[code] = f"{COLUMNS[3].pad(event_type_name(code))}  ".encode()
        text.put(self._file_text)
        if inner_index < 0:
            self._put_cell(offset)
        else:
            text.put(f"{COLUMNS[1].pad(f'{offset}/{inner_index}')}  ".encode())
        self._put_cell(end - at)
        text.put(cython.cast(bytes, self._types[code]))
        text.put(self._time_text)
        self._put_cell(load_le(raw, at + SERVER_ID_OFFSET, 4))
        return self._put_cell(load_le(raw, at + NEXT_POSITION_OFFSET, 4))

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _put_fields(
        self, raw: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> cython.bint:
        """Write an event's own fields; False where that is for the general function."""
        code: cython.int = raw[at + TYPE_OFFSET]
        event_class: cython.int = self._classes[code]
        at += HEADER_SIZE
        if event_class == EventClass.ROWS:
            return self._put_rows(raw, at, end, code)
        if event_class == EventClass.TABLE_MAP:
            return self._put_table_map(raw, at, end, code)
        if event_class == EventClass.QUERY:
            return self._put_query(raw, at, end)
        if event_class == EventClass.COMMIT:
            if end != at + XID_SIZE:
                return False
            self.text.put(b'{"xid": ' if self._json else b"xid=")
            self.text.used = put_digits(self.text.out, self.text.used, load_le(raw, at, XID_SIZE))
            if self._json:
                self.text.put(b"}")
            return True
        if event_class == EventClass.GTID and code != _TAGGED:
            return self._put_gtid(raw, at, end, code == _ANONYMOUS)
        if event_class == EventClass.MARIADB_GTID:
            return self._put_mariadb_gtid(raw, at, end)
        return False

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _put_table_map(
        self,
        raw: cython.p_const_uchar,
        at: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        code: cython.int,
    ) -> cython.bint:
        """Write the fields of a table map: all but its id come again."""
        if end < at + TABLE_ID_SIZE:
            return False
        text: ValueText = self.text
        content: bytes = bytes(raw[at + TABLE_ID_SIZE : end])
        found: Any = self._maps.get(content)
        if found is None and self._json and self._put_alike(raw, at, end):
            return True
        if found is None:
            fields: str = self._fields.text(bytes(TABLE_ID_SIZE) + content, code, self._format)
            begin = '{"table_id": 0' if self._json else "(id 0"
            first: cython.Py_ssize_t = 0 if self._json else fields.rfind(begin)
            if first < 0 or not fields.startswith(begin, first):
                return False
            if not self._json and len(fields) + _MAX_ID_DIGITS > SUMMARY_SIZE:
                # Where it is cut depends on the id.
                return self._put_known(self._long_maps, bytes(raw[at:end]), code)
            split: cython.Py_ssize_t = first + len(begin)
            found = (
                fields[: split - 1].encode("utf-8", "backslashreplace"),
                fields[split:].encode("utf-8", "backslashreplace"),
            )
            self._maps.put(content, found, len(content) + len(fields))
        text.put(cython.cast(bytes, found[0]))
        text.put_number(load_le(raw, at, TABLE_ID_SIZE))
        text.put(cython.cast(bytes, found[1]))
        return True

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _put_alike(
        self, raw: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> cython.bint:
        """Write the fields of a table map whose columns are those of another table."""
        # Each name stands behind its size, and before a NUL.
        schema: cython.Py_ssize_t = at + TABLE_MAP_POST_HEADER_SIZE + 1
        if end < schema:
            return False
        schema_end: cython.Py_ssize_t = schema + raw[schema - 1]
        table: cython.Py_ssize_t = schema_end + 2
        if end < table:
            return False
        table_end: cython.Py_ssize_t = table + raw[table - 1]
        if end <= table_end or raw[schema_end] or raw[table_end]:
            return False
        names: tuple[bytes, bytes] = (bytes(raw[schema:schema_end]), bytes(raw[table:table_end]))
        if not names[0].isascii() or not names[1].isascii():
            return False
        flags: cython.longlong = load_le(raw, at + TABLE_ID_SIZE, 2)
        key: bytes = bytes(raw[at + TABLE_ID_SIZE : schema - 1]) + bytes(raw[table_end:end])
        found: Any = self._columns.get(key)
        if found is None:
            content = bytes(raw[at + TABLE_ID_SIZE : end])
            body = bytes(TABLE_ID_SIZE) + content
            whole: str = self._fields.text(body, _TABLE_MAP, self._format)
            texts = tuple(quoted(name.decode()).decode() for name in names)
            begin = f'{{"table_id": 0, "flags": {flags}, "schema": {texts[0]}, "table": {texts[1]}'
            if not whole.startswith(begin):
                return False
            found = whole[len(begin) :].encode("utf-8", "backslashreplace")
            self._columns.put(key, found, len(found))
        text: ValueText = self.text
        text.put(b'{"table_id": ')
        text.put_number(load_le(raw, at, TABLE_ID_SIZE))
        text.put(b', "flags": ')
        text.put_number(flags)
        text.put(b', "schema": "')
        text._put_escaped(raw, schema, schema_end)
        text.put(b', "table": "')
        text._put_escaped(raw, table, table_end)
        text.put(cython.cast(bytes, found))
        return True

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _put_known(self, known: Any, body: bytes, code: cython.int) -> cython.bint:
        """Write the fields of a body that comes often."""
        found: Any = known.get(body)
        if found is None:
            if len(known) >= _MAX_TEXTS:
                known.clear()
            fields: str = self._fields.text(body, code, self._format)
            found = fields.encode("utf-8", "backslashreplace")
            known[body] = found
        self.text.put(cython.cast(bytes, found))
        return True

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _put_query(
        self, raw: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> cython.bint:
        """Write the fields of a statement: all but the thread and the time it took come again."""
        if end < at + QUERY_POST_HEADER_SIZE or end > at + _LONG_BODY:
            return False
        if end > query_text(raw, at) + _LONGEST_CONTROL and self._put_statement(raw, at, end):
            return True
        rest: bytes = bytes(raw[at + QUERY_DATABASE_SIZE_OFFSET : end])
        if not self._json:
            return self._put_known(self._queries, bytes(QUERY_DATABASE_SIZE_OFFSET) + rest, _QUERY)
        text: ValueText = self.text
        found: Any = self._queries.get(rest)
        if found is None:
            if len(self._queries) >= _MAX_TEXTS:
                self._queries.clear()
            whole: str = self._fields.text(
                bytes(QUERY_DATABASE_SIZE_OFFSET) + rest, _QUERY, self._format
            )
            begin = '{"thread_id": 0, "exec_time": 0'
            if not whole.startswith(begin):
                return False
            found = whole[len(begin) :].encode("utf-8", "backslashreplace")
            self._queries[rest] = found
        text.put(b'{"thread_id": ')
        text.put_number(load_le(raw, at + QUERY_THREAD_OFFSET, 4))
        text.put(b', "exec_time": ')
        text.put_number(load_le(raw, at + QUERY_EXEC_TIME_OFFSET, 4))
        text.put(cython.cast(bytes, found))
        return True

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _put_statement(
        self, raw: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> cython.bint:
        """Write the fields of a statement that does not come again, in a session that does."""
        begin: cython.Py_ssize_t = query_text(raw, at)
        statement: bytes = bytes(raw[begin:end])
        if not self._json or not statement.isascii():
            return False
        head: bytes = bytes(raw[at + QUERY_DATABASE_SIZE_OFFSET : begin])
        xid: cython.Py_ssize_t = self._xids.get(len(head), 0)
        key: bytes = head
        if xid:
            key = head[:xid] + _NO_XID + head[xid + XID_SIZE :]
        found: Any = self._statements.get(key)
        if found is None:
            found = self._session_text(head)
            if found is None:
                return False
        text: ValueText = self.text
        text.put(b'{"thread_id": ')
        text.put_number(load_le(raw, at + QUERY_THREAD_OFFSET, 4))
        text.put(b', "exec_time": ')
        text.put_number(load_le(raw, at + QUERY_EXEC_TIME_OFFSET, 4))
        text.put(cython.cast(bytes, found[0]))
        xid = found[2]
        if xid:
            text.used = put_digits(
                text.out,
                text.used,
                load_le(raw, at + QUERY_DATABASE_SIZE_OFFSET + xid, XID_SIZE),
            )
        text.put(cython.cast(bytes, found[1]))
        text.reserve(2)
        text.out[text.used] = 34
        text.used += 1
        text._put_escaped(raw, begin, end)
        text.put(b"}")
        return True

    def _session_text(self, head: bytes) -> tuple[bytes, bytes, int] | None:
        """Return the text before and after the number of a statement, and the position of the number.

        None where its text is not for certain that of its bytes.
        """
        body = bytes(QUERY_DATABASE_SIZE_OFFSET) + head
        event = self._fields.decoded(body, _QUERY, self._format)
        status = event.body.status
        collation = status.character_set_client
        whole: str = self._fields.text_of(event)
        begin, ending = '{"thread_id": 0, "exec_time": 0', '""}'
        if not whole.startswith(begin) or not whole.endswith(ending):
            return None
        if collation is not None and not is_utf8(collation):
            return None
        before, behind = whole[len(begin) : -len(ending)], ""
        key, at = head, xid_offset(event.body.status_vars)
        if at:
            before, number, behind = before.partition(f'"ddl_xid": {status.ddl_xid}')
            before += number[: number.rindex(" ") + 1]
            at += QUERY_POST_HEADER_SIZE - QUERY_DATABASE_SIZE_OFFSET
            key = head[:at] + _NO_XID + head[at + XID_SIZE :]
        if len(self._statements) >= _MAX_TEXTS:
            self._statements.clear()
            self._xids.clear()
        self._xids[len(head)] = at
        found = before.encode(), behind.encode(), at
        self._statements[key] = found
        return found

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _put_rows(
        self,
        raw: cython.p_const_uchar,
        at: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        code: cython.int,
    ) -> cython.bint:
        """Write the fields of a rows event, whose head was looked at."""
        text: ValueText = self.text
        form: cython.int = self._forms[code]
        head: cython.Py_ssize_t = rows_columns(raw, at, form)
        if form & ROWS_EXTRA and head != at + ROWS_POST_HEADER_SIZE + ROWS_EXTRA_SIZE:
            return False
        kind: cython.int = form & ROWS_KIND
        bitmap: cython.Py_ssize_t = (raw[head] + 7) >> 3
        images: cython.Py_ssize_t = head + 1 + bitmap
        if kind == UPDATE:
            images += bitmap
        if not self._json:
            text.put(cython.cast(bytes, _KINDS[kind]))
            text.put(b" (table id ")
            text.put_number(load_le(raw, at, TABLE_ID_SIZE))
            text.put(b", ")
            text.put_number(end - images)
            text.put(b" bytes of rows)")
            return True
        key: bytes = cython.cast(bytes, _KINDS[kind]) + bytes(raw[head:images])
        found: Any = self._heads.get(key)
        if found is None:
            # A whole event with this head, of which the text in the midst is taken.
            if len(self._heads) >= _MAX_TEXTS:
                self._heads.clear()
            body: bytes = bytes(raw[at:images])
            whole: str = self._fields.text(body, code, self._format)
            begin = whole.index(', "column_count": ')
            found = whole[begin : whole.rindex(", ")].encode()
            self._heads[key] = found
        text.put(b'{"kind": "')
        text.put(cython.cast(bytes, _KINDS[kind]))
        text.put(b'", "table_id": ')
        text.put_number(load_le(raw, at, TABLE_ID_SIZE))
        text.put(b', "flags": ')
        text.put_number(load_le(raw, at + ROWS_FLAGS_OFFSET, 2))
        text.put(cython.cast(bytes, found))
        text.put(b', "rows_size": ')
        text.put_number(end - images)
        text.put(b"}")
        return True

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _put_gtid(
        self,
        raw: cython.p_const_uchar,
        at: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        is_anonymous: cython.bint,
    ) -> cython.bint:
        """Write the fields of a GTID event."""
        text: ValueText = self.text
        gno: cython.longlong = load_signed(raw, at + GTID_NUMBER_OFFSET, 8)
        sid: cython.Py_ssize_t = at + GTID_SID_OFFSET
        known: cython.p_const_uchar = self._sid
        if len(self._sid) != GTID_SID_SIZE or not same_bytes(known, 0, raw, sid, GTID_SID_SIZE):
            self._sid = bytes(raw[sid : sid + GTID_SID_SIZE])
            self._uuid = format_uuid(self._sid).encode()
        if not self._json:
            if not gno or is_anonymous:
                return False
            text.put(self._uuid)
            text.put(b":")
            text.put_number(gno)
            return True
        if end < at + GTID_TIMESTAMP_OFFSET or raw[at + GTID_CLOCK_OFFSET] != LOGICAL_CLOCK:
            return False
        if gno:
            text.put(b'{"gtid": "')
            text.put(self._uuid)
            text.put(b":")
            text.put_number(gno)
            text.put(b'", "flags": ')
        else:
            text.put(b'{"gtid": null, "flags": ')
        text.put_number(raw[at + GTID_FLAGS_OFFSET])
        text.put(b', "sid": "')
        text.put(self._uuid)
        text.put(b'", "gno": ')
        text.put_number(gno)
        text.put(b', "clock_type": 2, "last_committed": ')
        text.put_number(load_signed(raw, at + GTID_LAST_COMMITTED_OFFSET, 8))
        text.put(b', "sequence_number": ')
        text.put_number(load_signed(raw, at + GTID_SEQUENCE_OFFSET, 8))
        tail: GtidTail = self._gtid_tail
        if tail.read(raw, at + GTID_TIMESTAMP_OFFSET, end) != end:
            # A ticket of group replication, or a field of newer servers.
            return False
        self._put_optional(0, tail.immediate)
        self._put_optional(1, tail.original)
        self._put_optional(2, tail.length)
        self._put_optional(3, tail.version)
        self._put_optional(4, tail.original_version)
        self._put_optional(5, -1)
        text.put(b"}")
        return True

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _put_optional(self, name: cython.int, value: cython.longlong) -> cython.int:
        """Write a field, null for a negative value."""
        self.text.put(cython.cast(bytes, _NAMES_OF_PAIRS[name]))
        if value < 0:
            return self.text.put(b"null")
        return self.text.put_number(value)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _put_mariadb_gtid(
        self, raw: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> cython.bint:
        """Write the fields of a MariaDB GTID event that has no XA id."""
        text: ValueText = self.text
        sequence: cython.longlong = load_signed(raw, at + MARIADB_SEQUENCE_OFFSET, 8)
        if sequence < 0:
            return False
        domain: cython.longlong = load_le(raw, at + MARIADB_DOMAIN_OFFSET, 4)
        server: cython.longlong = load_le(raw, at - HEADER_SIZE + SERVER_ID_OFFSET, 4)
        flags: cython.int = raw[at + MARIADB_FLAGS_OFFSET]
        if self._json:
            text.put(b'{"gtid": "')
        text.put_number(domain)
        text.put(b"-")
        text.put_number(server)
        text.put(b"-")
        text.put_number(sequence)
        if not self._json:
            return True
        text.put(b'", "sequence": ')
        text.put_number(sequence)
        text.put(b', "domain_id": ')
        text.put_number(domain)
        text.put(b', "flags": ')
        text.put_number(flags)
        text.put(b', "commit_id": ')
        rest: cython.Py_ssize_t = at + MARIADB_FIELDS_OFFSET
        if flags & MARIADB_COMMIT_ID:
            text.used = put_digits(text.out, text.used, load_le(raw, rest, MARIADB_COMMIT_ID_SIZE))
            rest += MARIADB_COMMIT_ID_SIZE
        else:
            text.put(b"null")
        key: bytes = bytes(raw[rest:end])
        found: Any = self._tails.get(key)
        if found is None:
            if len(self._tails) >= _MAX_TEXTS:
                self._tails.clear()
            body: bytes = bytes(MARIADB_FIELDS_OFFSET) + key
            whole: str = self._fields.text(body, _MARIADB_GTID, self._format)
            found = whole[whole.index(', "xid": ') :].encode()
            self._tails[key] = found
        text.put(cython.cast(bytes, found))
        return True
