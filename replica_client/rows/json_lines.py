# cython: boundscheck=False, wraparound=False, cdivision=True
"""Row changes as JSON lines, written from row images: for ``changes --json`` and sinks.

The lines equal those of :func:`~replica_client.rows.json_values.change_to_json`. This module is
compiled where that is possible; see :mod:`replica_client.rows.row_lines`.
"""

from __future__ import annotations

from typing import Any

import cython

from replica_client.rows.json_values import change_to_json, json_null_member
from replica_client.rows.row_change import Change
from replica_client.rows.value_text import quoted

if not cython.compiled:
    from replica_client.protocol.codec.memory import copy_bytes, put_literal
    from replica_client.rows.change import RowsOfEvent
    from replica_client.rows.image import Column, Plan, RowImageDecoder
    from replica_client.rows.row_lines import RowLines, TableHead

_INSERT = cython.declare(cython.int, 0)
_DELETE = cython.declare(cython.int, 2)
_NO_NAMES: list[str] = []


@cython.final
@cython.cclass
class JsonHead(TableHead):
    """The common text of a table's JSON lines, from the kind of change to the first image."""


@cython.final
@cython.cclass
class JsonLines(RowLines):
    """A writer of rows events as JSON lines, which :meth:`take` returns."""

    def __init__(self) -> None:
        RowLines.__init__(self)
        self._head_type = JsonHead
        self._file_known = ""
        self._file_text = self._file_json("")
        self._gtid_known = ""
        self._gtid_text = b', "gtid": "'
        self._start = b""
        self._middle = b""
        self._names = _NO_NAMES

    @staticmethod
    def _file_json(file: str) -> bytes:
        return b'{"file": ' + quoted(file) + b', "position": '

    def _general(self, change: Change) -> str:
        return change_to_json(change) + "\n"

    def _new_head(self, rows: RowsOfEvent) -> TableHead:
        shape = rows.shape
        table = b'", "database": %b, "table": %b, "before": ' % (
            quoted(shape.database),
            quoted(shape.table),
        )
        kinds = (b"insert", b"update", b"delete")
        return JsonHead(shape, True, [b', "kind": "' + kind + table for kind in kinds])

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _begin(self, rows: RowsOfEvent, head: TableHead) -> cython.int:
        # Build the common text in the output buffer, then cut it out for the rows that follow.
        begun: cython.Py_ssize_t = self.used
        if self._file is not self._file_known:
            self._file_known = self._file
            self._file_text = self._file_json(self._file)
        self.put(self._file_text)
        self.put_number(self._position)
        self.put(b', "event_index": ')
        self.put_number(rows._event_index)
        self.put(b', "row_index": ')
        self._start = self._cut_from(begun)
        if rows._gtid is not self._gtid_known:
            self._gtid_known = rows._gtid
            self._gtid_text = b', "gtid": ' + quoted(rows._gtid).removesuffix(b'"')
        self.put(self._gtid_text)
        if rows._gtid_number:
            self.put_number(rows._gtid_number)
        self.put(b'", "timestamp": ')
        self.put_number(self._timestamp)
        self.put(cython.cast(bytes, head.texts[self._kind]))
        self._middle = self._cut_from(begun)
        return 0

    @cython.cfunc
    def _cut_from(self, begun: cython.Py_ssize_t) -> bytes:
        """Remove the text from an offset on, and return it."""
        found: bytes = bytes(self.out[begun : self.used])
        self.used = begun
        return found

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _row(
        self,
        decoder: RowImageDecoder,
        before: Plan,
        after: Plan,
        data: cython.p_const_uchar,
        at: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        index: cython.longlong,
    ) -> cython.Py_ssize_t:
        old_nulls: list[str] = _NO_NAMES
        new_nulls: list[str] = _NO_NAMES
        self.put(self._start)
        self.put_number(index)
        self.put(self._middle)
        if self._kind == _INSERT:
            self.used = put_literal(self.out, self.used, 0)
        else:
            self._names = _NO_NAMES
            at = self._object(decoder, before, data, at, end)
            if not at:
                return 0
            old_nulls = self._names
        self.put(b', "after": ')
        if self._kind == _DELETE:
            self.used = put_literal(self.out, self.used, 0)
        else:
            self._names = _NO_NAMES
            at = self._object(decoder, after, data, at, end)
            if not at:
                return 0
            new_nulls = self._names
        if old_nulls or new_nulls:
            member: str = json_null_member(old_nulls, new_nulls)
            self.put(member.encode("utf-8", "backslashreplace"))
        self.out[self.used] = 125
        self.out[self.used + 1] = 10
        self.used += 2
        return at

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _object(
        self,
        decoder: RowImageDecoder,
        plan: Plan,
        data: cython.p_const_uchar,
        nulls: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
    ) -> cython.Py_ssize_t:
        """Write the image at ``nulls``; return where it ends, or 0 if it is malformed."""
        offset: cython.Py_ssize_t = nulls + plan.null_size
        if offset > end:
            return 0
        columns: list[Any] = plan.columns
        column: Column
        i: cython.Py_ssize_t
        length: cython.Py_ssize_t
        # The separator before the first key is not written.
        comma: cython.Py_ssize_t = 2
        key: cython.p_const_uchar
        is_null: cython.bint
        self.reserve(0)
        self.out[self.used] = 123
        self.used += 1
        for i in range(len(columns)):
            column = cython.cast(Column, columns[i])
            is_null = data[nulls + (i >> 3)] >> (i & 7) & 1
            length = 0
            if not is_null:
                length = self._length(column, data, offset, end)
                if length < 0:
                    return 0
                offset += column.prefix
            if column.target >= 0:
                if column.key is None:
                    column.key = b", " + quoted(column.name) + b": "
                    column.key_size = len(column.key)
                key = column.key
                self.reserve(column.key_size + length)
                copy_bytes(self.out, self.used, key, comma, column.key_size - comma)
                self.used += column.key_size - comma
                comma = 0
                if is_null:
                    self.used = put_literal(self.out, self.used, 0)
                else:
                    self.put_value(decoder, column, data, offset, length)
                    if self.is_null_document:
                        self.is_null_document = False
                        self._names = [*self._names, column.name]
            offset += length
        self.reserve(0)
        self.out[self.used] = 125
        self.used += 1
        return offset
