"""A search request to an archive, and the choice of the blocks that may answer it."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing

from replica_client.archive.binlog_archive import IndexedFile
from replica_client.archive.index_format import IndexedBlock, blocks_with
from replica_client.archive.index_scan import KeyConfirmation
from replica_client.archive.key_scan import key_number, zone_number
from replica_client.archive.search_conditions import ColumnStep, key_forms, literal_of
from replica_client.archive.transaction_ranges import is_plain
from replica_client.errors import ConfigError, DataLossError
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.event import DecodeOptions
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.gtid import Gtid, GtidSet, MariadbGtid, MariadbGtidSet, parse_gtid_set
from replica_client.protocol.position import Position
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.conditions import ConditionColumns, is_equal, matches
from replica_client.rows.image import RowImageDecoder
from replica_client.rows.row import Row
from replica_client.rows.row_change import Change
from replica_client.rows.row_screen import EITHER
from replica_client.rows.screens import Screens, Wanted
from replica_client.rows.selection import Selection
from replica_client.rows.special_values import ABSENT
from replica_client.rows.where import And, Comparison, Condition, Value, columns_of
from replica_client.schema.history import SchemaHistory
from replica_client.schema.left_out import hiding_columns
from replica_client.schema.shape import TableShape
from replica_client.storage.files import open_file, read_ahead, read_at
from replica_client.stream.files.file_order import no_such_file
from replica_client.stream.transactions.arguments import Start, micros_of
from replica_client.stream.transactions.schema_tracking import SchemaTracker
from replica_client.stream.transactions.transaction import Transaction

_HEAD_SIZE = 4096

Key = Mapping[str, Value | str] | Sequence[Value | str] | Value
"""A key: its value, the values of its columns in order, or a mapping by column name."""


@dataclass(frozen=True, slots=True)
class Question:
    """A search request.

    Attributes:
        patterns: patterns of tables; None: all.
        key: key of a row; None: all rows.
        step: change of a column; None: any.
        where: a condition that the row before or after must meet; None: no condition.
        since: where the first transaction begins: a position, a GTID set or a time.
        until: no transaction that begins there or later.
        gtid: a set that contains the transactions; None: any.
        thread: thread of the source's connection; None: any.
        kinds: kinds of changes; empty: all.
    """

    patterns: tuple[str, ...] | None = None
    key: Key | None = None
    step: ColumnStep | None = None
    where: Condition | None = None
    since: Start = "earliest"
    until: Start = "latest"
    gtid: GtidSet | MariadbGtidSet | None = None
    thread: int | None = None
    kinds: frozenset[str] = frozenset()

    def columns(self, *, conditions: bool = True) -> set[str]:
        """Return the names of the requested columns, with or without those of the condition."""
        named = set(self.key) if isinstance(self.key, Mapping) else set()
        if self.step is not None:
            named.add(self.step.column)
        if conditions and self.where is not None:
            named.update(columns_of(self.where))
        return named

    def check_positions(self, files: Mapping[str, int]) -> None:
        """Raise an error if a position is in a file that does not exist, or after the file's end.

        Args:
            files: sizes of the files by name.

        Raises:
            ConfigError: the message names the file.
        """
        for option, one in (("since", self.since), ("until", self.until)):
            if not isinstance(one, Position) or not one.file:
                continue
            if one.file not in files:
                raise no_such_file(one, list(files), option)
            if one.offset > files[one.file]:
                raise ConfigError(f"{option} {one}: {one.file} ends at {files[one.file]}")

    def takes_transaction(self, transaction: Transaction) -> bool:
        """Return whether a transaction may have changes that the question asks for."""
        if self.thread is not None and transaction.thread_id != self.thread:
            return False
        if self.gtid is not None and not has_gtid(self.gtid, transaction.gtid):
            return False
        since, until = self.since, self.until
        if isinstance(since, Position) and since.file and transaction.start < since:
            return False
        if isinstance(until, Position) and until.file and transaction.start >= until:
            return False
        if isinstance(since, Position) and not since.file and since.gtid_set is not None:
            if is_behind(since.gtid_set, transaction.gtid):
                return False
        if isinstance(until, Position) and not until.file and until.gtid_set is not None:
            if not is_behind(until.gtid_set, transaction.gtid):
                return False
        moment = transaction.commit_us
        if isinstance(since, datetime.datetime) and moment < micros_of(since):
            return False
        return not (isinstance(until, datetime.datetime) and moment >= micros_of(until))


def has_gtid(wanted: GtidSet | MariadbGtidSet, gtid: str) -> bool:
    """Return whether a GTID, as text, is in a set; for MariaDB, whether it is one of the GTIDs."""
    if not gtid:
        return False
    if isinstance(wanted, GtidSet):
        return ":" in gtid and Gtid.parse(gtid) in wanted
    return any(str(one) == gtid for one in wanted)


def is_behind(reached: GtidSet | MariadbGtidSet, gtid: str) -> bool:
    """Return whether a GTID, as text, is before a position given as a GTID set."""
    if not gtid:
        return False
    if isinstance(reached, GtidSet):
        return ":" in gtid and Gtid.parse(gtid) in reached
    return ":" not in gtid and MariadbGtid.parse(gtid) in reached


def key_literals(shape: TableShape, key: Key) -> tuple[tuple[int, ...], tuple[Value, ...]]:
    """Return the columns of a key, by index, and their values as literals.

    Raises:
        ConfigError: the table has no such column, or the key has other columns.
    """
    name = f"{shape.database}.{shape.table}"
    if isinstance(key, Mapping):
        columns = []
        for one in key:
            if one not in shape.column_names:
                raise ConfigError(
                    f"key: {name} has no column {one!r}; it has {', '.join(shape.column_names)}"
                )
            columns.append(shape.column_names.index(one))
        values = list(key.values())
    else:
        columns = list(shape.primary_key)
        scalar = isinstance(key, (str, bytes)) or not isinstance(key, Sequence)
        values = [key] if scalar else list(key)  # type: ignore[list-item,arg-type]
        if not columns:
            raise ConfigError(
                f"key: the primary key of {name} is not known here; name the columns (COLUMN=VALUE), or give the "
                "schema (--schema)"
            )
        if len(columns) != len(values):
            names = ", ".join(shape.column_names[at] for at in columns)
            raise ConfigError(
                f"key: {len(values)} values, but the primary key of {name} is ({names})"
            )
    found = tuple(
        literal_of(shape.columns[at], value) if isinstance(value, str) else value
        for at, value in zip(columns, values, strict=True)
    )
    return tuple(columns), found


class ChangeTest:
    """A test whether changes answer a question.

    Args:
        question: the question.
    """

    def __init__(self, question: Question) -> None:
        self._question = question
        self._selection = Selection(question.patterns)
        self._shapes: dict[TableShape, tuple[tuple[int, ...], tuple[Value, ...]]] = {}
        self._screens = Screens(self._wanted)
        self._columns = ConditionColumns(question.columns())
        # Rows of a table that lacks one of these columns do not match; a condition checks its own.
        self._needed = ConditionColumns(question.columns(conditions=False))

    def changes(self, rows: RowsOfEvent) -> Iterator[Change]:
        """Yield the changes of an event that may match; others are skipped without decoding.

        Raises:
            BinlogDecodeError: the event does not fit the table.
        """
        return self._screens.changes(rows)

    def changes_by(self, rows: RowsOfEvent, decoder: RowImageDecoder) -> Iterator[Change]:
        """Yield these changes as another decoder of the table's images decodes them.

        Changes that do not match may be among them.

        Raises:
            BinlogDecodeError: see :meth:`changes`.
        """
        return self._screens.changes_by(rows, decoder)

    def _wanted(self, shape: TableShape) -> list[Wanted] | None:
        """Return the conditions on the images of a table's changes, in the order of ``takes``."""
        question = self._question
        found: list[Wanted] = []
        if self._selection.wants(shape.database, shape.table):
            self._columns.saw(shape)
        try:
            if question.key is not None:
                columns, values = key_literals(shape, question.key)
                tests = [
                    Comparison(shape.columns[at].name, "=", value)
                    for at, value in zip(columns, values, strict=True)
                ]
                found.append((And(tuple(tests)), EITHER))
            if question.step is not None:
                found += question.step.wanted(shape)
        except ConfigError:
            return None  # ``takes`` raises it when a change comes
        if question.where is not None:
            found.append((question.where, EITHER))
        return found

    def takes(self, change: Change) -> bool:
        """Return whether a change answers the question.

        Raises:
            ConfigError: the question does not fit the table.
            DataLossError: the row images lack a needed column.
        """
        question = self._question
        if not self._selection.wants(change.database, change.table):
            return False
        if question.kinds and change.kind not in question.kinds:
            return False
        if self._needed.lacks(change.shape):
            return False
        if question.key is not None and not self._has_key(change, question.key):
            return False
        if question.step is not None and not question.step.takes(change):
            return False
        return question.where is None or matches(question.where, change)

    def check(self) -> None:
        """Raise an error if none of the tables had a column of the question; call it at the end.

        Raises:
            ConfigError: the message names the column, and the nearest name.
        """
        self._columns.check()

    def _has_key(self, change: Change, key: Key) -> bool:
        """Return whether the row before or after a change has the key."""
        shape = change.shape
        known = self._shapes.get(shape)
        if known is None:
            known = self._shapes[shape] = key_literals(shape, key)
        columns, values = known
        before, after = change.before, change.after
        return (before is not None and self._row_has(change, before, before, columns, values)) or (
            after is not None and self._row_has(change, after, before, columns, values)
        )

    def _row_has(
        self,
        change: Change,
        row: Row,
        before: Row | None,
        columns: Sequence[int],
        values: Sequence[Value],
    ) -> bool:
        for at, literal in zip(columns, values, strict=True):
            value = row[at]
            if value is ABSENT and before is not None:
                value = before[at]  # what an after image leaves out was not changed
            name = change.shape.columns[at].name
            if value is ABSENT:
                raise DataLossError(
                    f"file {change.file}, position {change.offset}: the row image of {change.database}."
                    f"{change.table} left out column {name!r} of the key"
                )
            if not is_equal(name, value, literal):
                return False
        return True


class BlockChoice:
    """The choice of a file's blocks that may answer a question.

    Args:
        question: the question.
        decode: how to decode.
    """

    def __init__(self, question: Question, decode: DecodeOptions) -> None:
        self._question, self._decode = question, decode
        self._selection = Selection(question.patterns)

    def of(self, file: IndexedFile, history: SchemaHistory) -> list[IndexedBlock]:
        """Return the blocks of a file that may answer the question, in order.

        Args:
            file: the file with its index.
            history: the definitions of the tables at the end of the file; it is not changed.
        """
        index = file.index
        sure: set[int] = set()
        perhaps: set[int] = set()
        numbers: dict[int, list[int]] = {}
        for number, table in enumerate(index.tables):
            if not self._selection.wants(table.database, table.name):
                continue
            found = self._filtered(file, number, history)
            if found is None:
                sure.update(table.blocks)
            else:
                numbers[number], blocks = found
                perhaps.update(blocks)
        chosen = [
            (block, block.must_read or number in sure)
            for number, block in enumerate(index.blocks)
            if (block.must_read or number in sure or number in perhaps)
            and self._in_range(file, block)
        ]
        if not numbers or all(is_sure for _, is_sure in chosen):
            return [block for block, _ in chosen]
        with closing(open_file(file.listed.where)) as stream:
            if not is_plain(read_at(stream, 0, _HEAD_SIZE), file.listed.name):
                return [block for block, _ in chosen]
            for block, is_sure in chosen:
                if not is_sure:
                    read_ahead(stream, block.start, block.end - block.start)
            confirmation = KeyConfirmation(file.listed, self._decode, index, numbers)
            return [
                block for block, is_sure in chosen if is_sure or confirmation.has(stream, block)
            ]

    def _filtered(
        self, file: IndexedFile, number: int, history: SchemaHistory
    ) -> tuple[list[int], set[int]] | None:
        """Return the numbers of the key in a table, and the blocks that may have it.

        None means that the index cannot be used: every block with rows of the table may have the
        key.
        """
        table = file.index.tables[number]
        key = self._question.key
        if key is None or table.unfiltered:
            return None
        shape = self._shape(file, number, history)
        if shape is None:
            return None
        if isinstance(key, Mapping) and shape.names_resolved:
            if not set(key).issubset(shape.column_names):
                return None  # read, so that a column that no table has is noticed
        columns, values = key_literals(shape, key)
        if set(columns) != set(table.key):
            return None
        by_column = dict(zip(columns, values, strict=True))
        forms = key_forms(shape, table.key, [by_column[at] for at in table.key])
        if forms is None:
            return None
        try:
            asked = [
                (key_number(one, table.zone_size > 0), zone_number(one[0], table.lead_size))
                for one in forms
            ]
        except ValueError:
            return None
        numbers = [one for one, _ in asked]
        inside = [one for one in asked if table.low <= one[1] <= table.high]
        if not inside:
            return numbers, set()
        section = file.section(number)
        if section is None:
            return None
        try:
            return numbers, {block for one in inside for block in blocks_with(section, *one)}
        except ValueError:
            return None

    def _shape(self, file: IndexedFile, number: int, history: SchemaHistory) -> TableShape | None:
        """Return the shape of a table with the key of the index; None if the key is uncertain."""
        table = file.index.tables[number]
        described = file.index.facts.described(file.listed.name, self._decode)
        form = next((decoder for _, decoder in described), BinlogDecoder(self._decode)).format
        table_map = BinlogDecoder(self._decode, file.listed.name, form).table_map_of(
            bytes(6) + table.content
        )
        if table_map is None:
            return None
        tracker = SchemaTracker(history, Selection(), "positional", "positional", reports=False)
        found = tracker.shape(table_map, form)
        names = tuple(found.column_names[at] for at in table.key if at < len(found.columns))
        if hiding_columns(found, form.flavor).keys() & set(names):
            return None  # the key may be a UUID or an address, which is not compared as bytes
        # A definition with other names for the key's columns: the index is not about this key.
        return found if names == table.key_names else None

    def _in_range(self, file: IndexedFile, block: IndexedBlock) -> bool:
        question = self._question
        since, until = question.since, question.until
        if isinstance(since, Position) and since.file:
            if Position(file.listed.name, block.end) <= since:
                return False
        if isinstance(until, Position) and until.file:
            if Position(file.listed.name, block.start) >= until:
                return False
        if block.last_time:
            if isinstance(since, datetime.datetime) and block.last_time < micros_of(since):
                return False
            if isinstance(until, datetime.datetime) and block.first_time >= micros_of(until):
                return False
        if question.gtid is not None and block.gtids and not block.must_read:
            return any(meets_run(question.gtid, run) for run in block.gtids)
        return True


def meets_run(wanted: GtidSet | MariadbGtidSet, run: tuple[str, int, int]) -> bool:
    """Return whether a GTID of a run is in a set."""
    sid, low, high = run
    if isinstance(wanted, MariadbGtidSet):
        domain, _, server = sid.partition("-")
        return any(
            (str(one.domain_id), str(one.server_id)) == (domain, server)
            and low <= one.sequence <= high
            for one in wanted
        )
    if ":" in sid:
        return Gtid.parse(sid) in wanted
    if "-" in sid:
        return False
    text = f"{sid[:8]}-{sid[8:12]}-{sid[12:16]}-{sid[16:20]}-{sid[20:]}:{low}-{high}"
    runs = parse_gtid_set(text)
    assert isinstance(runs, GtidSet)
    return not runs.isdisjoint(wanted)
