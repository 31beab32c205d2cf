"""Snapshots: requests, progress and their view.

A request is a file ``ROUTE.snapshots/NAME.json``. It is removed when its rows are in the sink.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import asdict, field, replace
from pathlib import Path
from typing import Any, Final, Self

from replica_client.errors import PositionStoreError
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.rows.row import Row, row_class
from replica_client.rows.selection import Selection
from replica_client.rows.where import Condition
from replica_client.schema.history import SchemaChange
from replica_client.schema.kinds import EXACT_NUMBERS
from replica_client.schema.left_out import shape_of
from replica_client.schema.model import TableModel
from replica_client.schema.shape import ColumnShape, TableShape
from replica_client.service.signals import EXECUTE, Signal
from replica_client.service.table_checker import Key
from replica_client.storage.durable import replace_file
from replica_client.stream.snapshot.column_selects import exact_sql
from replica_client.stream.tables.net_changes import TableName
from replica_client.stream.transforms.column_rules import ColumnRule
from replica_client.stream.transforms.table_plan import DROPPED, TablePlan
from replica_client.stream.transforms.transformer import Transformer

STATE_KEY: Final = "snapshot"
MAX_SIGNALS: Final = 100
"""Signals at most whose tables are not looked up yet: they are part of every checkpoint."""
MAX_TABLES: Final = 10_000
"""Pending tables above which signals are refused."""


@dataclass(frozen=True, slots=True)
class TableProgress:
    """Progress of a table.

    Attributes:
        database: of the table.
        table: its name on the source.
        request: name of its request; empty for the first copy.
        where: condition in SQL of the wanted rows, from someone who may read any row.
        filter: condition of :mod:`replica_client.rows.where` of the wanted rows, as the sink gets them.
        key: primary key columns on which the ranges are based.
        done: the range that was written last, as JSON; None: there is none.
        rows: number of rows read; with a filter, of rows written.
        blocking: the rows are marked as those of a first copy, of all tables of the request.
        whole: the table has no visible key: it is read at once, and its earlier changes are left
            out of the stream.
        copy: how often the table was forgotten before this first copy.
    """

    database: str
    table: str
    request: str = ""
    where: str = ""
    key: tuple[str, ...] = ()
    done: list[Any] | None = None
    rows: int = 0
    whole: bool = False
    blocking: bool = False
    filter: str = ""
    copy: int = 0

    @property
    def name(self) -> TableName:
        """Database and table name."""
        return self.database, self.table


@dataclass(slots=True)
class SnapshotProgress:
    """Progress of all tables.

    Attributes:
        left: tables that are not done, in order; the first one is being read.
        copied: tables whose first copy is done.
        begun: whether a row of a first copy was written.
        requests: names of requests whose tables are known here.
        signals: signals whose tables are not looked up yet.
        request: the request whose row was written last.
        digests: what decided how rows of copied tables look, by ``database.table``; a table
            without columns and transforms of its own has none. None: not known.
        forgotten: how often a table was forgotten, by ``database.table``.
    """

    left: list[TableProgress] = field(default_factory=list)
    copied: set[TableName] = field(default_factory=set)
    begun: bool = False
    requests: list[str] = field(default_factory=list)
    signals: list[Signal] = field(default_factory=list)
    request: str = ""
    digests: dict[str, str] | None = None
    forgotten: dict[str, int] = field(default_factory=dict)

    @property
    def known(self) -> set[TableName]:
        """Tables whose first copy is done or pending."""
        return self.copied | {one.name for one in self.left if not one.request}

    def forget(self, wants: Callable[[TableName], bool]) -> list[TableName]:
        """Forget tables that are not wanted any more; they are copied when they return.

        Returns:
            the tables that are forgotten.
        """
        gone = sorted(name for name in self.known if not wants(name))
        self._forget(gone)
        return gone

    def forget_changed(self, digest: Callable[[TableName], str]) -> list[TableName]:
        """Forget copies of tables whose rows look different now; return these tables.

        Args:
            digest: of a table; empty if it has no columns and transforms of its own.
        """
        before = self.digests
        if before is None:
            return []
        changed = [
            name for name in sorted(self.known) if before.get(".".join(name), "") != digest(name)
        ]
        self._forget(changed)
        return changed

    def _forget(self, names: Collection[TableName]) -> None:
        self.copied.difference_update(names)
        self.left = [one for one in self.left if one.request or one.name not in names]
        for name in map(".".join, names):
            self.forgotten[name] = self.forgotten.get(name, 0) + 1

    def first_copy(self, name: TableName, *, whole: bool = False) -> TableProgress:
        """Return the progress of a first copy that is to begin."""
        return TableProgress(*name, whole=whole, copy=self.forgotten.get(".".join(name), 0))

    def note_digests(self, digest: Callable[[TableName], str]) -> None:
        """Record how rows of the known tables look."""
        found = {".".join(name): digest(name) for name in sorted(self.known)}
        self.digests = {name: one for name, one in found.items() if one}

    def has_left(self, request: str) -> bool:
        """Return whether rows of a request are not written."""
        return any(one.request == request for one in self.left)

    def end(self) -> None:
        """Record that the first table is done."""
        one = self.left.pop(0)
        if not one.request:
            self.copied.add(one.name)

    def follow(self, changes: Iterable[SchemaChange], wants: Callable[[TableName], bool]) -> bool:
        """Apply the schema changes of a statement: a table's progress moves to its new name.

        The stream has no rows of a table while its name is not wanted: such a table is forgotten,
        and copied if it gets a wanted name again.

        Args:
            changes: of the stream.
            wants: whether the sink takes a table.

        Returns:
            Whether the progress changed.
        """
        moved = [self._follow(change, wants) for change in changes]
        if any(moved):
            self.forget(wants)
        return any(moved)

    def _follow(self, change: SchemaChange, wants: Callable[[TableName], bool]) -> bool:
        name = (change.database, change.table)
        if change.kind == "create_table":
            # The stream delivers all rows of a new table.
            if name in self.known or not wants(name):
                return False
            self.copied.add(name)
            return True
        after = change.name_after
        if after == name:
            return False
        known = name in self.known
        self.left = [replace(one, database=after[0], table=after[1]) if one.name == name else one
                     for one in self.left if one.name != after]  # fmt: skip
        self.copied.discard(after)
        if name in self.copied:
            self.copied.remove(name)
            self.copied.add(after)
        elif not known and wants(after):
            self.left.append(self.first_copy(after))
        return True

    def take(self, signal: Signal) -> bool:
        """Handle a signal of the stream; return False if too many tables are already pending."""
        if signal.kind == EXECUTE:
            if len(self.signals) >= MAX_SIGNALS or len(self.left) >= MAX_TABLES:
                return False
            self.signals.append(signal)
            return True
        self.left = [one for one in self.left if not (one.request and signal.stops(one.name))]
        if not signal.tables:
            self.signals.clear()
        self.signals = [one for one in self.signals if not set(one.tables) <= set(signal.tables)]
        return True

    def cancel(self, names: Iterable[str] | None, tables: Iterable[TableName]) -> list[str]:
        """Drop requested copies; return the names of the requests that have none left.

        Args:
            names: of requests; None: of all requests and signals.
            tables: if not empty, only copies of these.
        """
        wanted, only = None if names is None else set(names), set(tables)
        gone = [
            one
            for one in self.left
            if one.request
            and (wanted is None or one.request in wanted)
            and (not only or one.name in only)
        ]
        self.left = [one for one in self.left if one not in gone]
        if wanted is None and not only:
            self.signals.clear()
        return sorted({one.request for one in gone if not self.has_left(one.request)})

    def expand(self, there: Collection[TableName]) -> list[Signal]:
        """Look up the tables that signals mean; return the signals that match none.

        Args:
            there: tables that the sink wants and the source has.
        """
        signals, self.signals = self.signals, []
        for one in signals:
            for name in one.names(there):
                made = TableProgress(*name, request=one.id, blocking=one.blocking)
                text = one.where(name)
                self.left.append(
                    replace(made, where=text) if one.raw else replace(made, filter=text)
                )
        return [one for one in signals if not one.names(there)]

    def to_state(self) -> dict[str, object]:
        """Return the progress as JSON value."""
        return {
            "left": [asdict(one) | {"key": list(one.key)} for one in self.left],
            "copied": sorted(map(list, self.copied)),
            "begun": self.begun,
            "requests": list(self.requests),
            "signals": [one.to_state() for one in self.signals],
            "request": self.request,
            **({} if self.digests is None else {"digests": self.digests}),
            **({"forgotten": self.forgotten} if self.forgotten else {}),
        }

    @classmethod
    def from_state(cls, value: Any) -> Self:
        """Build the progress from a value of :meth:`to_state`, or an empty one from None.

        Raises:
            PositionStoreError: the value is malformed.
        """
        if value is None:
            return cls()
        try:
            return cls(
                [TableProgress(**{**one, "key": tuple(one["key"])}) for one in value["left"]],
                {(str(database), str(table)) for database, table in value["copied"]},
                bool(value["begun"]),
                [str(one) for one in value["requests"]],
                [Signal.from_state(one) for one in value.get("signals", ())],
                str(value.get("request", "")),
                None if (found := value.get("digests")) is None else dict(found),
                dict(value.get("forgotten", {})),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise PositionStoreError(
                f"the snapshot in the saved position is not of this release: {error}"
            ) from None


@dataclass(frozen=True, slots=True)
class SnapshotRequest:
    """A snapshot request.

    Attributes:
        name: of the request.
        tables: names on the source.
        where: condition in SQL of the wanted rows; empty for all.
        filter: condition of :mod:`replica_client.rows.where`, likewise, as the sink gets them.
    """

    name: str
    tables: tuple[TableName, ...]
    where: str = ""
    filter: str = ""


class SnapshotRequests:
    """The requests of a route; all methods block.

    Args:
        state: the state directory.
        route: ``source.sink``.
    """

    def __init__(self, state: Path, route: str) -> None:
        self.directory = state / f"{route}.snapshots"

    def add(
        self, tables: Sequence[TableName], where: str = "", condition: str = ""
    ) -> SnapshotRequest:
        """Request a snapshot of tables; the request survives a crash.

        Args:
            tables: names on the source.
            where: see :class:`SnapshotRequest`.
            condition: the filter of :class:`SnapshotRequest`.
        """
        name = f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{secrets.token_hex(4)}"
        request = SnapshotRequest(name, tuple(tables), where, condition)
        self.directory.mkdir(parents=True, exist_ok=True)
        saved = {"tables": [list(one) for one in tables], "where": where, "filter": condition}
        replace_file(self._path(name), json.dumps(saved).encode())
        return request

    def found(self) -> tuple[list[SnapshotRequest], list[str]]:
        """Return the requests, the oldest first, and the names of malformed files."""
        requests, damaged = [], []
        if not self.directory.is_dir():
            return [], []
        for path in sorted(self.directory.glob("*.json")):
            try:
                found = json.loads(path.read_bytes())
                tables = tuple((str(database), str(table)) for database, table in found["tables"])
                where, condition = str(found["where"]), str(found.get("filter", ""))
                requests.append(SnapshotRequest(path.stem, tables, where, condition))
            except FileNotFoundError:
                continue
            except (ValueError, KeyError, TypeError):
                damaged.append(path.stem)
        return requests, damaged

    def has(self, name: str) -> bool:
        """Return whether a request is not done."""
        return self._path(name).exists()

    def remove(self, name: str) -> None:
        """Remove a request."""
        self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self.directory / f"{name}.json"


@dataclass(frozen=True, slots=True)
class SnapshotView:
    """A table as the stream delivers it.

    Attributes:
        model: the source's table.
        shape: of what is delivered, all columns.
        columns: the selected columns.
        key: names of the columns that identify rows; None if there are none, or they are hidden.
    """

    model: TableModel
    shape: TableShape
    columns: tuple[ColumnShape, ...]
    key: tuple[str, ...] | None
    _plan: TablePlan | None
    _indexes: tuple[int, ...] | None

    @classmethod
    def of(
        cls,
        model: TableModel,
        selection: Selection,
        transform: Transformer | None,
        flavor: ServerFlavor,
    ) -> Self:
        """Return the view of a table.

        Raises:
            ConfigError: the transforms do not fit the table.
            SchemaError: a column type is unknown.
        """
        plan = None if transform is None else transform.plan(model.database, model.name)
        seen = model if transform is None else transform.model(model)
        shape = shape_of(seen, flavor)
        if plan is not None:
            shape = plan.marked(shape)
        names = _given_names(model, plan, selection.columns_of(model.database, model.name))
        columns = tuple(column for column in shape.columns if column.name in names)
        indexes = None
        if len(columns) < len(shape.columns):
            indexes = tuple(at for at, column in enumerate(shape.columns) if column.name in names)
        key: tuple[str, ...] | None = tuple(name for name, _ in seen.primary_key)
        if not key or not set(key) <= names or (plan is not None and not plan.shows_key(model)):
            key = None
        return cls(model, shape, columns, key, plan, indexes)

    @property
    def name(self) -> TableName:
        """The table's name in the stream."""
        return self.shape.database, self.shape.table

    def rows(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Convert rows of the source to delivered rows."""
        if self._plan is not None:
            rows = self._plan.rows(self.model, rows)
        if self._indexes is None:
            return rows
        make = row_class(tuple(column.name for column in self.columns))
        return [make([row[at] for at in self._indexes]) for row in rows]

    def prefilter(self, wanted: Condition) -> str:
        """Return an SQL condition that excludes only rows that do not meet ``wanted``.

        It includes only tests that the server answers as :mod:`replica_client.rows.conditions`
        does: on numbers, and on columns that no transform changes. The returned rows are tested
        again.
        """
        return exact_sql(wanted, self._numbers()) or ""

    def _numbers(self) -> dict[str, str]:
        """Return the source's numeric columns that no transform changes, by delivered name."""
        columns = [one for one in self.model.columns if not one.hidden]
        given = {one.name for one in self.columns}
        rules: list[tuple[ColumnRule | None, str]] = [(None, one.name) for one in columns]
        if self._plan is not None:
            rules = self._plan.columns(columns, (name for name, _ in self.model.primary_key))
        return {
            new: column.name
            for column, (rule, new) in zip(columns, rules, strict=True)
            if rule is None and new in given and column.kind in EXACT_NUMBERS
        }

    def keys(self, rows: Sequence[Row]) -> list[Key] | None:
        """Return the keys of delivered rows; None if rows have no visible key."""
        if self.key is None:
            return None
        names = [column.name for column in self.columns]
        indexes = [names.index(name) for name in self.key]
        return [tuple(row[at] for at in indexes) for row in rows]


def _given_names(
    model: TableModel, plan: TablePlan | None, wanted: frozenset[str] | None
) -> set[str]:
    """Return the names of the delivered columns, after the transforms."""
    columns = [column for column in model.columns if not column.hidden]
    if plan is None:
        return {one.name for one in columns if wanted is None or one.name in wanted}
    found = plan.columns(columns, (name for name, _ in model.primary_key))
    return plan.added_names | {
        new
        for column, (rule, new) in zip(columns, found, strict=True)
        if rule is not DROPPED and (wanted is None or column.name in wanted)
    }
