"""Tables as the delivered changes make them, compared with SELECT at each position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from replica_client import ABSENT, Position, SchemaChange, Transaction
from replica_client.rows.change import RowsOfEvent
from tests.integration.mix_sessions import Snapshot, Table
from tests.integration.mix_values import UNREADABLE, Row, Rows, delivered

_HIDDEN = "DB_ROW_HASH_"
_MANY = 6


@dataclass(frozen=True)
class RowChange:
    """A delivered row change in the form of SELECT's values.

    Attributes:
        computed: MariaDB's generated columns.
    """

    table: Table
    names: tuple[str, ...]
    before: Row | None
    after: Row | None
    position: str
    computed: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Record:
    """A delivered transaction, or a part of one."""

    start: Position
    end: Position
    items: tuple[RowChange | SchemaChange, ...]

    @classmethod
    def of(cls, transaction: Transaction) -> Record:
        """Decode a transaction's rows now."""
        found: list[RowChange | SchemaChange] = []
        for item in transaction.items:
            if isinstance(item, RowsOfEvent):
                found.extend(_change(change) for change in item)
            elif isinstance(item, SchemaChange):
                found.append(item)
            else:
                raise AssertionError(f"a loss that nobody asked for: {item}")
        return cls(transaction.start, transaction.position, tuple(found))


def _change(change: Any) -> RowChange:
    return RowChange(
        (change.database, change.table),
        tuple((change.before if change.after is None else change.after).columns),
        _row(change, change.before),
        _row(change, change.after),
        f"{change.file}:{change.offset}",
        frozenset() if ":" in change.gtid or not change.gtid else _computed(change),
    )


def _computed(change: Any) -> frozenset[str]:
    return frozenset(column.name for column in change.shape.columns if column.computed)


def _row(change: Any, row: Any) -> Row | None:
    if row is None:
        return None
    types = {column.name: column.type_code for column in change.shape.columns}
    return {
        name: delivered(value, types[name]) for name, value in zip(row.columns, row, strict=True)
    }


@dataclass(frozen=True)
class Difference:
    """Something delivered that SELECT does not show, or the other way round.

    Attributes:
        seed: of the epoch.
        entry: the number of the statement after which SELECT was asked.
        kind: what is wrong, in words that do not tell where.
        text: what is wrong.
    """

    seed: int
    entry: int
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


@dataclass
class Checker:
    """Takes transactions in the binlog's order and compares with snapshots.

    Attributes:
        differences: what was found.
        compared: tables that were compared with a SELECT that had changed.
        rows: row changes taken.
        unreadable: those with labels that are no text, which are not compared.
    """

    snapshots: Sequence[Snapshot]
    casefold: bool = False
    tables: dict[Table, list[Row]] = field(default_factory=dict)
    differences: list[Difference] = field(default_factory=list)
    compared: int = 0
    rows: int = 0
    unreadable: int = 0
    _at: int = 0
    _names: dict[Table, tuple[str, ...]] = field(default_factory=dict)
    _anew: set[Table] = field(default_factory=set)
    _all_anew: bool = False
    _touched: set[Table] = field(default_factory=set)

    def feed(self, record: Record) -> None:
        """Take the next transaction."""
        while self._at < len(self.snapshots):
            snapshot = self.snapshots[self._at]
            if record.start < Position(*snapshot.position):
                break
            self._compare(snapshot)
            self._at += 1
        for item in record.items:
            if isinstance(item, RowChange):
                self._apply(item)
            else:
                self._alter(item)

    def finish(self) -> None:
        """Compare with what is left, after the last transaction."""
        for snapshot in self.snapshots[self._at :]:
            self._compare(snapshot)
        self._at = len(self.snapshots)

    @property
    def position(self) -> tuple[int, int]:
        """The epoch's seed and the number of the statement that is at work."""
        at = min(self._at, len(self.snapshots) - 1)
        return (self.snapshots[at].seed, self.snapshots[at].entry) if at >= 0 else (0, 0)

    def _key(self, table: Table) -> Table:
        return (table[0].lower(), table[1].lower()) if self.casefold else table

    def _differ(self, kind: str, text: str) -> None:
        self.differences.append(Difference(*self.position, kind, text))

    # What is delivered.

    def _apply(self, change: RowChange) -> None:
        self.rows += 1
        table = self._key(change.table)
        self._touched.add(table)
        self._names[table] = change.names
        values = (*(change.before or {}).values(), *(change.after or {}).values())
        if any(value is UNREADABLE for value in values):
            # Which row it is cannot be told: the next SELECT says.
            self.unreadable += 1
            self._anew.add(table)
        if table in self._anew or self._all_anew:
            return
        rows = self.tables.setdefault(table, [])
        where = f"{change.position} {'.'.join(change.table)}"
        known: Row = {}
        if change.before is not None:
            at = _find(rows, change.before)
            if at is None:
                self._anew.add(table)
                self._differ("no such row before", f"{where}: {change.before}, {rows[:_MANY]}")
                return
            known = rows.pop(at)
        if change.after is not None:
            # MariaDB since 11.8.9 leaves out what it computed, changed or not: then nothing tells it.
            known = {
                k: v
                for k, v in known.items()
                if k not in change.computed or change.after.get(k) is not ABSENT
            }
            after = {k: v for k, v in change.after.items() if v is not ABSENT or k not in known}
            rows.append({**known, **after})

    def _alter(self, change: SchemaChange) -> None:
        table = self._key((change.database, change.table))
        kind = change.kind
        self._touched.add(table)
        self._names.pop(table, None)
        if kind == "create_table":
            if "IF NOT EXISTS" not in change.statement.upper() or table not in self.tables:
                self.tables[table] = []
                self._anew.discard(table)
        elif kind == "drop_table":
            self.tables.pop(table, None)
        elif kind == "truncate_table":
            self.tables[table] = []
        elif kind == "drop_database":
            for name in [name for name in self.tables if name[0] == table[0]]:
                del self.tables[name]
        elif kind == "rename_table" and change.after is not None:
            new = self._key((change.after.database, change.after.name))
            self.tables[new] = self.tables.pop(table, [])
            self._anew.add(new)
        elif kind in ("create_database", "alter_database"):
            return
        elif "PARTITION" in change.statement.upper() or kind == "not_understood":
            self._all_anew = True
        else:
            self._anew.add(table)
            if change.after is not None:
                self._anew.add(self._key((change.after.database, change.after.name)))

    # What is there.

    def _compare(self, snapshot: Snapshot) -> None:
        last = self.snapshots[self._at - 1].tables if self._at else {}
        for name, wanted in snapshot.tables.items():
            table = self._key(name)
            if table in self._anew or self._all_anew:
                self.tables[table] = [dict(row) for row in wanted.rows]
                continue
            if table not in self._touched and last.get(name) is wanted:
                continue
            self.compared += 1
            found = self._differences(table, wanted)
            if found is not None:
                self._differ(found[0], f"{'.'.join(name)} {found[1]}")
            self.tables[table] = [dict(row) for row in wanted.rows]
        there = {self._key(name) for name in snapshot.tables}
        for table in [table for table in self.tables if table not in there]:
            if self.tables.pop(table) and table not in self._touched:
                self._differ("a table that is not there", ".".join(table))
        self._anew.clear()
        self._touched.clear()
        self._all_anew = False

    def _differences(self, table: Table, wanted: Rows) -> tuple[str, str] | None:
        names = self._names.get(table) if table in self._touched else None
        if names is not None and names != wanted.names:
            hidden = any(name.startswith(_HIDDEN) for name in names)
            kind = "a hidden column" if hidden else "column names"
            if set(names) != set(wanted.names):
                return kind, f"{names}, SELECT has {wanted.names}"
        rows = list(self.tables.get(table, []))
        extra: list[Row] = []
        for row in wanted.rows:
            at = _find(rows, row)
            if at is None:
                extra.append(row)
            else:
                rows.pop(at)
        if not rows and not extra:
            return None
        return (
            "rows",
            f"delivered and not there {rows[:_MANY]}; there and not delivered {extra[:_MANY]}",
        )


def _find(rows: list[Row], wanted: Row) -> int | None:
    """The row that has these values; where some are not known, the one of which most is known."""
    best: tuple[int, int] | None = None
    for at, row in enumerate(rows):
        if row == wanted:
            return at
        unknown = _unknown(row, wanted)
        if unknown is not None and (best is None or unknown < best[0]):
            best = (unknown, at)
    return None if best is None else best[1]


def _unknown(row: Row, wanted: Row) -> int | None:
    """How many of the wanted values a row does not tell; None when it has others."""
    unknown = 0
    for name, value in wanted.items():
        if value is ABSENT:
            continue
        mine = row.get(name, ABSENT)
        if mine is ABSENT:
            unknown += 1
        elif mine != value:
            return None
    return unknown
