"""Schema changes of the source, applied to a mirror."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing

from replica_client.schema.model import ColumnModel, TableModel
from replica_client.sinks.mirror.collector import ApplySchema, unknown_table
from replica_client.sinks.mirror.mirror_database import Alteration
from replica_client.sinks.mirror.table_store import TableStore
from replica_client.stream.tables.alterations import (
    CannotFollowError,
    ColumnSource,
    brings_rows,
    cannot_follow,
    column_sources,
    replaces_table,
)
from replica_client.stream.tables.conversions import Conversion, added_value, conversion, widens
from replica_client.stream.tables.net_changes import Values


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
