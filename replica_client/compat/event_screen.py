# cython: boundscheck=False, wraparound=False
"""Events of a dump where they lie: those that nobody wants are passed over without becoming objects.

An event of rows becomes an object that is like an earlier one of its table: only what differs is read.

This module is compiled where that is possible (Cython's pure Python mode) and runs as it stands everywhere
else.
"""

from __future__ import annotations

from typing import Any

import cython

if not cython.compiled:
    from replica_client.protocol.codec.crc import valid_until
    from replica_client.protocol.codec.event_queue import EventQueue
    from replica_client.protocol.codec.memory import load_le, same_bytes

STOP = 0
"""The event is decoded."""
PASS = 1
"""It is passed over."""
TABLE = 2
"""A table map that nobody wants: it is passed over if it came before."""
ROWS = 3
"""An event of rows, with the usual post-header of its version."""

LIKE = 4
"""An event that is decoded when one of its attributes is asked for."""
TABLE_LIKE = 5
"""A table map that is wanted: the event of the same bytes again."""

_STOP = cython.declare(cython.int, STOP)
_TABLE = cython.declare(cython.int, TABLE)
_ROWS = cython.declare(cython.int, ROWS)
_LIKE = cython.declare(cython.int, LIKE)
_TABLE_LIKE = cython.declare(cython.int, TABLE_LIKE)
_COMMON = ("table_map", "event_type", "_ctl_connection", "mysql_version", "dbms")
_HEADER = cython.declare(cython.Py_ssize_t, 19)
_FIRST_V2 = cython.declare(cython.int, 30)
_UPDATES = cython.declare(tuple, (24, 31))
_MAX_MODELS = 4096
_TABLE_MAP = cython.declare(cython.int, 19)


class LaterLoaded:
    """An object whose attributes are set all at once; a subclass may show others as its ``__dict__``."""


state_of = vars(LaterLoaded)["__dict__"].__get__
"""The attributes that an object of a subclass of :class:`LaterLoaded` has by now."""
_set_state = cython.declare(object, vars(LaterLoaded)["__dict__"].__set__)


def _renumber(fields: dict[str, Any], number: int) -> None:
    """Give a table map's attributes another number."""
    if fields["table_id"] != number:
        fields["table_id"] = number
        fields["table_obj"] = fields["_facts"].table(number)


@cython.final
@cython.cclass
class _Model:
    """The common attributes of the rows events of one table and one type.

    Args:
        kind: their class.
        facts: what is known of the table.
        fields: their attributes.
        width: how many columns they have.
    """

    def __init__(self, kind: type[Any], facts: Any, fields: dict[str, Any], width: int) -> None:
        self.kind = kind
        self.facts = facts
        self.fields = fields
        self.width = width


@cython.final
@cython.cclass
class EventScreen:
    """A filter on raw events, before they become objects.

    Args:
        tables: what is known of the tables, by number.
        known: table maps of this file by their bytes from :attr:`number_size` on: a number, and what is known
            of the table.

    Attributes:
        actions: what to do with an event, by its type code.
        in_group: whether an event of a type code belongs to the rows of a statement.
        tail: bytes of an event's checksum.
        number_size: bytes of the table's number in a table map, which ``known`` leaves out because a
            server changes the number each time that it opens the table; 0: ``known`` has it.
        log_pos: where the last event ended that was taken.
        group_start: where the table maps of the statement begin; 0 outside of one.
        unplaced: how many events came after ``log_pos`` whose headers do not give their end.
    """

    def __init__(self, tables: dict[int, Any], known: Any, in_group: bytes) -> None:
        self._tables = tables
        self._known = known
        self._in_group = in_group
        self.actions = bytes(256)
        self.tail = 0
        self.number_size = 0
        self.log_pos = 0
        self.group_start = 0
        self.unplaced = 0
        self._last = b""
        self._models: dict[tuple[int, int], _Model] = {}
        self._kinds: dict[int, _Model] = {}
        self._maps: dict[bytes, _Model] = {}

    def forget(self) -> None:
        """Forget the table maps and models at the start of a file or connection."""
        self._last = b""
        self._models.clear()
        self._kinds.clear()
        self._maps.clear()

    def announced(self) -> None:
        """Forget the last table map, because a table got its number elsewhere."""
        self._last = b""

    def take(
        self,
        queue: EventQueue,
        log_pos: cython.longlong,
        group_start: cython.longlong,
        unplaced: cython.longlong,
    ) -> Any:
        """Pass over events up to a wanted one; the event, if it is of rows and like an earlier one.

        Args:
            queue: loses the events.
            log_pos: where the event before ended.
            group_start: as the attribute.
            unplaced: as the attribute.

        Returns:
            the event; None: the next one is to be decoded, or there is none.
        """
        actions: cython.p_const_uchar = self.actions
        in_group: cython.p_const_uchar = self._in_group
        data: cython.p_uchar = queue.data
        first: cython.Py_ssize_t = queue.first
        count: cython.Py_ssize_t = queue.last - first
        i: cython.Py_ssize_t
        at: cython.Py_ssize_t
        end: cython.Py_ssize_t
        position: cython.longlong
        code: cython.int
        action: cython.int
        passed: cython.Py_ssize_t = 0
        found: object = None
        for i in range(first, first + count):
            at = queue.marks[2 * i]
            end = queue.marks[2 * i + 1]
            if end - at < _HEADER + 8 + self.tail:
                break
            code = data[at + 4]
            action = actions[code]
            position = cython.cast(cython.longlong, load_le(data, at + 13, 4))
            if action == _STOP:
                break
            if action == _TABLE:
                if not self._announced(data, at + _HEADER, end - self.tail):
                    break
            elif action == _LIKE:
                found = self._like(queue, i, self._kinds.get(code))
                if found is None:
                    break
            elif action == _TABLE_LIKE:
                if not self._announced(data, at + _HEADER, end - self.tail):
                    break
                if self._tables[load_le(data, at + _HEADER, 6)].wanted:
                    found = self._like(queue, i, self._maps.get(self._last[self.number_size :]))
                    if found is None:
                        break
                    if self.number_size:
                        _renumber(state_of(found), load_le(data, at + _HEADER, 6))
            elif action == _ROWS:
                facts: object = self._tables.get(load_le(data, at + _HEADER, 6))
                if facts is None:
                    break
                if facts.wanted:  # type: ignore[attr-defined]
                    found = self._rows(queue, i, facts)
                    if found is None:
                        break
            passed += 1
            if position:
                if code == _TABLE_MAP:
                    if not group_start:
                        group_start = log_pos
                elif not in_group[code]:
                    group_start = 0
                log_pos = position
                unplaced = 0
            else:
                unplaced += 1
            if found is not None:
                break
        self.log_pos = log_pos
        self.group_start = group_start
        self.unplaced = unplaced
        if passed:
            queue.drop(passed)
        return found

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _announced(
        self, data: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> cython.bint:
        """Return whether a table map is known, and give its table the number in that case."""
        last: cython.p_const_uchar = self._last
        if len(self._last) == end - at and same_bytes(last, 0, data, at, end - at):
            return True
        known = self._known.get(bytes(data[at + self.number_size : end]))
        if known is None:
            return False
        number = load_le(data, at, 6) if self.number_size else known[0]
        # The last one goes last: the first ones are forgotten some time.
        self._tables.pop(number, None)
        self._tables[number] = known[1]
        self._last = bytes(data[at:end])
        return True

    @cython.cfunc
    def _rows(self, queue: EventQueue, index: cython.Py_ssize_t, facts: Any) -> object:
        """Build a rows event from a model, or return None when there is no model or it does not fit."""
        raw: cython.p_uchar = queue.data
        at: cython.Py_ssize_t = queue.marks[2 * index]
        end: cython.Py_ssize_t = queue.marks[2 * index + 1]
        code: cython.int = raw[at + 4]
        size: cython.Py_ssize_t = end - at
        number: cython.ulonglong = load_le(raw, at + _HEADER, 6)
        found = self._models.get((id(facts), code))
        if found is None or load_le(raw, at + 9, 4) != size:
            return None
        model: _Model = cython.cast(_Model, found)
        size_at: cython.Py_ssize_t = _HEADER + 8
        if code >= _FIRST_V2:
            if size < size_at + 2 + self.tail or load_le(raw, at + size_at, 2) != 2:
                return None
            size_at += 2
        bitmap: cython.Py_ssize_t = (model.width + 7) >> 3
        counted: cython.int = 1
        if model.width > 250:
            counted = 3
        is_update: cython.bint = code in _UPDATES
        images: cython.Py_ssize_t = size_at + counted + (2 * bitmap if is_update else bitmap)
        if model.facts is not facts or images + self.tail > size:
            return None
        if counted == 1:
            if raw[at + size_at] != model.width:
                return None
        elif raw[at + size_at] != 252 or load_le(raw, at + size_at + 1, 2) != model.width:
            return None
        if self.tail and valid_until(raw, queue.marks, index, index + 1) == index:
            return None
        data: bytes = bytes(raw[at:end])
        size_at += counted
        fields: dict[str, Any] = model.fields.copy()
        fields["_data"] = data
        fields["table_id"] = number
        fields["_images"] = images
        fields["_end"] = size - self.tail
        fields["timestamp"] = load_le(raw, at, 4)
        fields["event_size"] = size - _HEADER - self.tail
        fields["flags"] = load_le(raw, at + _HEADER + 6, 2)
        fields["columns_present_bitmap"] = data[size_at : size_at + bitmap]
        if is_update:
            fields["columns_present_bitmap2"] = data[size_at + bitmap : images]
        event: Any = object.__new__(model.kind)
        _set_state(event, fields)
        return event

    @cython.cfunc
    def _like(self, queue: EventQueue, index: cython.Py_ssize_t, found: Any) -> object:
        """Return an event with a model's attributes and its own bytes, or None if it must be decoded."""
        if found is None:
            return None
        model: _Model = cython.cast(_Model, found)
        raw: cython.p_uchar = queue.data
        at: cython.Py_ssize_t = queue.marks[2 * index]
        end: cython.Py_ssize_t = queue.marks[2 * index + 1]
        if load_le(raw, at + 9, 4) != end - at:
            return None
        if self.tail and valid_until(raw, queue.marks, index, index + 1) == index:
            return None
        fields: dict[str, Any] = model.fields.copy()
        fields["_data"] = bytes(raw[at:end])
        fields["timestamp"] = load_le(raw, at, 4)
        fields["event_size"] = end - at - _HEADER - self.tail
        event: Any = object.__new__(model.kind)
        _set_state(event, fields)
        return event

    def learn(self, event: Any, context: Any, data: bytes) -> None:
        """Keep a decoded event as the model of later events like it."""
        action = self.actions[event.event_type]
        if action == ROWS:
            self._learn_rows(event, context)
        elif action == LIKE:
            fields = {name: getattr(event, name) for name in _COMMON}
            fields |= {"_context": context, "_is_loaded": False}
            self._kinds[event.event_type] = _Model(type(event), None, fields, 0)
        elif action == TABLE_LIKE:
            if len(self._maps) >= _MAX_MODELS:
                self._maps.clear()
            fields = dict(state_of(event), _context=context)
            del fields["packet"]
            content = data[_HEADER + self.number_size : len(data) - self.tail]
            self._maps[content] = _Model(type(event), None, fields, 0)

    def _learn_rows(self, event: Any, context: Any) -> None:
        fields = state_of(event)
        if fields.get("extra_data_length", 2) != 2 or not 0 < event.number_of_columns < 0x10000:
            return
        if len(self._models) >= _MAX_MODELS:
            self._models.clear()
        common = dict(fields, _context=context)
        del common["packet"]
        model = _Model(type(event), event._facts, common, event.number_of_columns)
        # The model has the facts: their id is no other's as long as it is there.
        self._models[id(event._facts), event.event_type] = model
