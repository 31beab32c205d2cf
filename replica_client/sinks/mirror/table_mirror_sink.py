"""Base classes of sinks that mirror tables in a database, and the source's schema changes applied to it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from typing import ClassVar

from replica_client.errors import SinkError
from replica_client.rows.row import Row
from replica_client.schema.kinds import REALS
from replica_client.schema.model import ColumnModel, TableModel
from replica_client.sinks.mirror.collector import (
    ApplyRows,
    ApplySchema,
    Collector,
    NewTable,
    Step,
    ValueEncoder,
    copied_values,
    gone_table,
    of_tables,
    refused_change,
    tables_of,
    unknown_table,
)
from replica_client.sinks.mirror.mirror_database import Alteration, MirrorDatabase
from replica_client.sinks.mirror.stored_values import (
    FileMirrorOptions,
    MirrorOptions,
    ReplacedValues,
    one_zero,
    stored_encoder,
)
from replica_client.sinks.mirror.table_store import TableStore
from replica_client.sinks.protocol import Guarantee
from replica_client.sinks.writing import Batches, Worker, check_writable, in_thread, os_errors
from replica_client.storage.location import local_path
from replica_client.stream.position.stores.base import Checkpoint
from replica_client.stream.position.stores.ownership import Claim, Heart, Owner
from replica_client.stream.tables.alterations import (
    CannotFollowError,
    ColumnSource,
    brings_rows,
    cannot_follow,
    column_sources,
    replaces_table,
)
from replica_client.stream.tables.conversions import Conversion, added_value, conversion, widens
from replica_client.stream.tables.net_changes import TableCopy, TableName, Values
from replica_client.stream.transactions.transaction import Transaction


def apply_schema(store: TableStore, step: ApplySchema, *, create: bool) -> None:
    """Apply the change that a statement made on the source to the mirror.

    Args:
        store: the mirror.
        step: the schema change.
        create: see :class:`~replica_client.sinks.mirror.collector.Collector`.

    Raises:
        SinkError: its effect on existing rows is unknown.
    """
    change = step.change
    name = (change.database, change.table)
    if change.kind == "drop_database":
        for database, table in list(store.tables):
            if database == change.database:
                store.drop((database, table))
    elif change.kind == "create_table":
        if change.after is not None:
            if name in store.tables and replaces_table(change):
                store.renew(store.tables[name], change.after)
            else:
                store.create(change.after)
    elif name not in store.tables:
        if change.kind == "rename_table" and not create:
            raise unknown_table(*change.name_after)
    elif change.kind == "drop_table":
        store.drop(name)
    elif change.kind == "truncate_table":
        store.truncate(name)
    elif change.kind == "rename_table" and change.after is not None:
        store.rename(name, store.tables[name].renamed(change.after.database, change.after.name))
    elif change.kind in ("alter_table", "rename_table", "not_understood"):
        _alter(store, store.tables[name], step)


def _alter(store: TableStore, before: TableModel, step: ApplySchema) -> None:
    change, after = step.change, step.change.after
    if store.is_done and after is not None:
        store.rename((before.database, before.name), after)
        return
    if store.is_empty(before) and not brings_rows(change):
        # Without rows nothing can be lost. An unknown definition comes with the first row.
        if after is None:
            store.drop((before.database, before.name))
        else:
            store.renew(before, after)
        return
    try:
        if after is None:
            raise CannotFollowError("what it does is not understood")
        sources = column_sources(change, before, after)
        if not store.native and _keeps_rows(before, after, sources):
            store.rename((before.database, before.name), after)
        elif store.alters:
            store.alter(_alteration(store, before, after, sources, step.timestamp))
        else:
            rows = _converted_rows(store, before, sources, step.timestamp)
            with closing(rows):
                store.rebuild(before, after, rows)
    except CannotFollowError as error:
        raise cannot_follow(change, error) from error


def _keeps_rows(before: TableModel, after: TableModel, sources: list[ColumnSource]) -> bool:
    """Return whether the stored rows are valid for the new definition as they are."""
    same_order = [source.old.name if source.old else "" for source in sources] == list(
        before.column_names
    )
    return (
        same_order
        and before.column_names == after.column_names
        and [name for name, _ in before.primary_key] == [name for name, _ in after.primary_key]
        and all(
            source.old is not None and conversion(source.old, source.column) is None
            for source in sources
        )
    )


def _alteration(
    store: TableStore,
    before: TableModel,
    after: TableModel,
    sources: list[ColumnSource],
    timestamp: int,
) -> Alteration:
    """Return the alteration, after a check that all existing values fit.

    Raises:
        CannotFollowError: a value does not fit, or its new value is unknown.
    """
    if not store.native and not any(source.old for source in sources):
        raise CannotFollowError("no column is left of those that were there")
    constants = [None if one.old is not None else added_value(one, timestamp) for one in sources]
    checked: list[tuple[ColumnModel, Conversion]] = []
    for source in sources:
        if source.old is None or (not store.native and widens(source.old, source.column)):
            continue
        # Raises if the source's conversion may differ from the one here.
        convert = conversion(source.old, source.column)
        if convert is not None and not store.native:
            checked.append((source.old, convert))
    replaced: dict[str, dict[object, object]] = {}
    if checked:
        with closing(store.rows(before, [old.name for old, _ in checked])) as rows:
            for row in rows:
                for (old, convert), value in zip(checked, row, strict=True):
                    made = None if value is None else convert(value)
                    if old.kind == "set" and made != value:
                        replaced.setdefault(old.name, {})[value] = made
    return Alteration(before, after, sources, constants, replaced)


def _converted_rows(
    store: TableStore, before: TableModel, sources: list[ColumnSource], timestamp: int
) -> Generator[Values, None, None]:
    kept = [source.old.name for source in sources if source.old is not None]
    makers: list[Conversion | None] = [
        None if source.old is None else conversion(source.old, source.column) for source in sources
    ]
    constants = [
        None if source.old is not None else added_value(source, timestamp) for source in sources
    ]
    if not kept:
        raise CannotFollowError("no column is left of those that were there")
    return _rows(store.rows(before, kept), sources, makers, constants)


def _rows(
    stored: Generator[Values, None, None],
    sources: list[ColumnSource],
    makers: list[Conversion | None],
    constants: Sequence[object],
) -> Generator[Values, None, None]:
    # If a value cannot be converted, the store's cursor must be closed, too.
    with closing(stored) as rows:
        for row in rows:
            values = iter(row)
            made: list[object] = []
            for source, convert, constant in zip(sources, makers, constants, strict=True):
                if source.old is None:
                    made.append(constant)
                    continue
                value = next(values)
                made.append(value if value is None or convert is None else convert(value))
            yield tuple(made)


class TableMirrorSink:
    """Mirrors tables in a database by :class:`~replica_client.sinks.mirror.table_store.TableStore`.

    Args:
        where: the database, for messages.
        options: the reactions to missing rows and unknown tables.
    """

    guarantee = Guarantee.EXACTLY_ONCE
    holds_position = True

    def __init__(self, where: str, options: MirrorOptions) -> None:
        self._where = where
        self._strict = options.missing_rows == "error"
        self._create = options.unknown_tables == "create"
        self._worker = Worker()
        self._batches = Batches(in_thread(self._worker, self._take))
        self._store: TableStore | None = None
        self._collector: Collector | None = None
        self._claim: Claim | None = None
        self._heart: Heart | None = None
        self._replaced = ReplacedValues()

    # Methods to override.

    def _database(self) -> MirrorDatabase:
        """Open the database."""
        raise NotImplementedError

    def _errors(self) -> AbstractContextManager[None]:
        """Raise errors of the database in the block as ``SinkError``."""
        raise NotImplementedError

    def _lacks_table(self, error: Exception) -> bool:
        """Return whether an error says that a table of the source is missing."""
        raise NotImplementedError

    def _refuses(self, error: Exception) -> bool:
        """Return whether the server refuses a schema change that other servers may accept."""
        return False

    def _concerns_all(self, error: BaseException | None) -> bool:
        """Return whether an error would hit every table, such as a missing right."""
        return False

    def _encoder_of(self, column: ColumnModel) -> ValueEncoder | None:
        """Return the encoder of a column's values; None if they are stored as they are."""
        return stored_encoder(column)

    # Common to all mirrors.

    @property
    def replaced_values(self) -> int:
        return self._replaced.count

    def claim(self, claim: Claim) -> None:
        self._claim = claim

    async def owners(self) -> Sequence[Owner]:
        return await self._worker.run(self._owners)

    def _owners(self) -> Sequence[Owner]:
        with self._errors():
            database = self._database()
            try:
                return TableStore(database, self._claim).owners()
            finally:
                database.close()

    async def saved(self) -> Checkpoint | None:
        return await self._worker.run(self._saved)

    async def open(self) -> Checkpoint | None:
        return await self._worker.run(self._open)

    async def write(self, transaction: Transaction) -> None:
        await self._batches.add(transaction)

    async def write_some(self, transactions: Sequence[Transaction], size: int) -> None:
        await self._batches.add_some(transactions, size)

    async def commit(self, checkpoint: Checkpoint) -> None:
        await self._batches.flush()
        await self._worker.run(self._commit, checkpoint)

    def abort(self) -> None:
        if self._store is not None:
            self._store.abort()

    async def close(self) -> None:
        self._batches.clear()
        await self._worker.run(self._close)
        self._worker.stop()

    # Initial copies.

    @property
    def tables(self) -> Collection[TableName]:
        return self._store.tables.keys() if self._store is not None else ()

    @property
    def copies(self) -> Mapping[TableName, TableCopy]:
        return self._store.copies if self._store is not None else {}

    async def want_copies(self, tables: Iterable[TableName]) -> None:
        await self._worker.run(self._with_store, lambda store: store.want_copies(tables))

    async def forget_tables(self, tables: Iterable[TableName]) -> None:
        await self._worker.run(self._with_store, lambda store: store.forget_tables(tables))

    async def begin_copy(self, copy: TableCopy) -> None:
        await self._worker.run(self._with_store, lambda store: store.begin_copy(copy), copy.name)

    async def copy_rows(self, copy: TableCopy, rows: Sequence[Row]) -> None:
        model = copy.definition
        assert model is not None

        def work(store: TableStore) -> None:
            store.copy_rows(model, copied_values(model, rows, self._encoder_of))

        await self._worker.run(self._with_store, work, copy.name)

    async def save_copy(self, copy: TableCopy) -> None:
        await self._worker.run(self._with_store, lambda store: store.save_copy(copy))

    def _with_store(
        self, work: Callable[[TableStore], None], table: TableName | None = None
    ) -> None:
        store, _ = self._opened()
        names = () if table is None else (table,)
        with self._errors():
            store.begin()
        try:
            with of_tables(names, self._concerns_all), self._errors():
                work(store)
        except SinkError:
            # The copy of the next table begins a new transaction.
            with self._errors():
                store.rollback()
            raise

    def _open(self) -> Checkpoint | None:
        with self._errors():
            database = self._database()
            store = self._store = TableStore(database, self._claim)
            checkpoint = store.prepare()
            if self._claim is not None and database.leases:
                self._heart = Heart(lambda: self._beats(store))
            self._collector = Collector(
                store.tables,
                self._encoder_of,
                strict=self._strict,
                create=self._create,
                copies=store.copies,
            )
            return checkpoint

    def _take(self, transactions: list[Transaction]) -> None:
        store, collector = self._opened()
        with self._errors():
            for transaction in transactions:
                for step in collector.take(transaction):
                    self._do(store, step)

    def _do(self, store: TableStore, step: Step) -> None:
        store.begin()
        with of_tables(tables_of(step), self._concerns_all), self._errors():
            try:
                self._do_step(store, step)
            except Exception as error:
                # Somebody may have dropped the table.
                gone = gone_table(self._where, error, step) if self._lacks_table(error) else None
                if gone is None and isinstance(step, ApplySchema) and self._refuses(error):
                    gone = refused_change(self._where, error, step)
                if gone is None:
                    raise
                raise gone from error

    def _do_step(self, store: TableStore, step: Step) -> None:
        if isinstance(step, ApplyRows):
            store.apply(step.changes)
        elif isinstance(step, NewTable):
            store.create(step.model)
        else:
            store.at_step(f"{step.change.file}:{step.change.position}", step.number)
            try:
                apply_schema(store, step, create=self._create)
            finally:
                store.at_step("", 0)

    def _commit(self, checkpoint: Checkpoint) -> None:
        store, collector = self._opened()
        with self._errors():
            for step in collector.flush():
                self._do(store, step)
            store.commit(checkpoint)

    def _close(self) -> None:
        store, self._store, self._collector = self._store, None, None
        heart, self._heart = self._heart, None
        if heart is not None:
            heart.stop()
        if store is not None:
            try:
                if heart is not None:
                    with suppress(SinkError), self._errors():
                        store.give_back()
            finally:
                with self._errors():
                    store.close()

    def _saved(self) -> Checkpoint | None:
        with self._errors():
            database = self._database()
            try:
                return TableStore(database, self._claim).saved()
            finally:
                database.close()

    @contextmanager
    def _beats(self, store: TableStore) -> Iterator[Callable[[str], None]]:
        database = self._database()
        try:
            yield lambda text: store.write_beat(database, text)
        finally:
            database.close()

    def _opened(self) -> tuple[TableStore, Collector]:
        if self._store is None or self._collector is None:
            raise SinkError(f"{self._where}: the sink is not open")
        return self._store, self._collector


class FileMirrorSink(TableMirrorSink):
    """A sink that mirrors tables in a file.

    Args:
        options: what the user chose.
        name: name of the sink, for messages.

    Attributes:
        refused: base class of the database library's errors.
    """

    refused: ClassVar[type[Exception]]

    def __init__(self, options: FileMirrorOptions, name: str) -> None:
        self._path = local_path(options.path, f"sink {name}: path")
        super().__init__(
            str(self._path),
            options,
        )

    # Methods to override.

    def _look(self) -> None:
        """Check that the existing file is a database; raise an error otherwise."""
        raise NotImplementedError

    def _sink_error(self, error: Exception) -> SinkError:
        """Return the sink's error for an error of the database."""
        raise NotImplementedError

    # Common to all file mirrors.

    def _owners(self) -> Sequence[Owner]:
        return super()._owners() if self._path.exists() else ()

    def _saved(self) -> Checkpoint | None:
        return super()._saved() if self._path.exists() else None

    async def probe(self) -> None:
        await self._worker.run(self._probe)

    def _probe(self) -> None:
        check_writable(self._path.parent)
        with self._errors():
            if self._path.exists():
                self._look()

    def _encoder_of(self, column: ColumnModel) -> ValueEncoder | None:
        # SQLite stores -0.0 as 0. DuckDB 1.5 stores a segment in which all values are equal as its
        # first value, so that -0.0 beside 0.0 would depend on the other rows.
        return one_zero if column.kind in REALS else self._plain_encoder(column)

    def _plain_encoder(self, column: ColumnModel) -> ValueEncoder | None:
        """Return the encoder of a column that is no FLOAT or DOUBLE."""
        return stored_encoder(column)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            with os_errors(str(self._path)):
                yield
        except self.refused as error:
            raise self._sink_error(error) from error
