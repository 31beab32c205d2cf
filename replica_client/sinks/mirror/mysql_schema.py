"""Schema changes of the source done to a mirror on MySQL or MariaDB."""

from __future__ import annotations

from replica_client.errors import SinkError
from replica_client.schema.history import SchemaChange
from replica_client.schema.model import ColumnModel, TableModel
from replica_client.schema.quoting import mysql_name, mysql_value
from replica_client.sinks.mirror.collector import ApplySchema, unknown_table
from replica_client.sinks.mirror.mysql_store import MysqlStore
from replica_client.sinks.mirror.mysql_values import GEOMETRIES
from replica_client.tables.added_values import StoredValue, added_value
from replica_client.tables.altered_columns import (
    CannotFollowError,
    ColumnSource,
    brings_rows,
    cannot_follow,
    column_sources,
)
from replica_client.tables.conversions import conversion
from replica_client.tables.table_copy import TableName

_NO_DEFAULT = frozenset(("json", *GEOMETRIES))


async def create_table(store: MysqlStore, model: TableModel, position: str) -> None:
    """Make a table, in place of one of the mirror's that is there.

    Raises:
        SinkError: there is one that is not the mirror's.
    """
    name = (model.database, model.name)
    await store.check_owner(name)
    await store.create_database(model.database)
    ours = await store.is_ours(name)
    if ours is False:
        raise SinkError(
            f"the mirror's server has a table {store.table(name)} that the mirror did not make: drop it, "
            "or set database_prefix"
        )
    if ours:
        await store.ddl(f"DROP TABLE {store.table(name)}")
    await store.ddl(_definition(store, model, position))


async def drop_table(store: MysqlStore, name: TableName) -> None:
    """Drop a table of the mirror's, if there is one."""
    if await store.is_ours(name):
        await store.ddl(f"DROP TABLE {store.table(name)}")


async def apply_schema(store: MysqlStore, step: ApplySchema, *, create: bool, done: int) -> None:
    """Do to the mirror what a statement did to the source.

    Args:
        store: the mirror.
        step: what was done.
        create: see :class:`~replica_client.sinks.mirror.collector.Collector`.
        done: how many of the statement's changes were done before a crash.

    Raises:
        SinkError: what it did to rows that are there is not known.
    """
    change = step.change
    name = (change.database, change.table)
    position = f"{position_of(change)}/{step.number}"
    is_done = step.number < done
    if change.kind == "drop_database":
        await _drop(store, [one for one in store.tables if one[0] == change.database])
    elif change.kind == "create_table":
        if change.after is not None:
            if not is_done:
                await create_table(store, change.after, position)
            store.keep(change.after)
    elif name not in store.tables:
        if change.kind == "rename_table" and change.after is not None and not create:
            raise unknown_table(change.after.database, change.after.name)
    elif change.kind == "drop_table":
        await _drop(store, [name])
    elif change.kind == "truncate_table":
        await store.ddl(f"TRUNCATE TABLE {store.table(name)}")
    elif change.kind == "rename_table" and change.after is not None:
        model = store.tables[name].renamed(change.after.database, change.after.name)
        if not is_done:
            await _rename(store, name, model, position)
        store.keep(model, name)
    elif change.kind in ("alter_table", "rename_table", "not_understood"):
        await _alter(store, step, position, is_done=is_done)


def position_of(change: SchemaChange) -> str:
    """The place of a statement, as comments of tables have it."""
    return f"{change.file}:{change.position}"


async def _drop(store: MysqlStore, names: list[tuple[str, str]]) -> None:
    for name in names:
        await store.ddl(f"DROP TABLE IF EXISTS {store.table(name)}")
    for name in names:
        store.forget(name)


async def _rename(
    store: MysqlStore, name: tuple[str, str], model: TableModel, position: str
) -> None:
    await store.create_database(model.database)
    old, new = _old_and_new(store, name, model)
    await store.ddl(f"ALTER TABLE {old} RENAME TO {new}, COMMENT = {store.comment(position)}")


def _old_and_new(store: MysqlStore, name: tuple[str, str], model: TableModel) -> tuple[str, str]:
    """What a table is called before and after it is renamed; its name is free for the new one."""
    old = store.table(name)
    store.names.forget(name)
    return old, store.table((model.database, model.name))


async def _alter(store: MysqlStore, step: ApplySchema, position: str, *, is_done: bool) -> None:
    change, after = step.change, step.change.after
    before = store.tables[change.database, change.table]
    name = (before.database, before.name)
    if is_done and after is not None:
        store.keep(after, name)
        return
    if await store.is_empty(name) and not brings_rows(change):
        # Without rows nothing can be lost; what is not known comes with the first row.
        if after is None:
            await _drop(store, [name])
            return
        await create_table(store, after, position)
        if name != (after.database, after.name):
            await store.ddl(f"DROP TABLE IF EXISTS {store.table(name)}")
        store.keep(after, name)
        return
    try:
        if after is None:
            raise CannotFollowError("what it does is not understood")
        clauses = _clauses(store, change, before, after, step.timestamp)
    except CannotFollowError as error:
        raise cannot_follow(change, error) from error
    clauses.append(f"COMMENT = {store.comment(position)}")
    old = store.table(name)
    if name != (after.database, after.name):
        old, new = _old_and_new(store, name, after)
        clauses.append(f"RENAME TO {new}")
    await store.ddl(f"ALTER TABLE {old} {', '.join(clauses)}")
    store.keep(after, name)


def _clauses(
    store: MysqlStore, change: SchemaChange, before: TableModel, after: TableModel, timestamp: int
) -> list[str]:
    sources = column_sources(change, before, after)
    kept = {source.old.name for source in sources if source.old is not None}
    clauses = [
        f"DROP COLUMN {mysql_name(column.name)}"
        for column in before.columns
        if column.name not in kept
    ]
    old_key = [name for name, _ in before.primary_key]
    new_key = {source.column.name: source.old for source in sources}
    renamed_key = [
        old.name if (old := new_key.get(name)) is not None else "" for name, _ in after.primary_key
    ]
    if old_key and renamed_key != old_key:
        clauses.insert(0, "DROP PRIMARY KEY")
    position = "FIRST"
    keyed = {name for name, _ in after.primary_key}
    for source in sources:
        column = source.column
        definition = _column(store, column, keyed)
        if source.old is None:
            definition += _default(column, added_value(source, timestamp))
            clauses.append(f"ADD COLUMN {definition} {position}")
        elif _differs(source) or position != _old_column_position(before, sources, source):
            clauses.append(f"CHANGE COLUMN {mysql_name(source.old.name)} {definition} {position}")
        position = f"AFTER {mysql_name(column.name)}"
    if after.primary_key and renamed_key != old_key:
        clauses.append(f"ADD PRIMARY KEY ({_key(after)})")
    return clauses


def _differs(source: ColumnSource) -> bool:
    old, new = source.old, source.column
    assert old is not None
    conversion(old, new)  # raises where the source's conversion is not sure to be the server's here
    return old != new


def _old_column_position(
    before: TableModel, sources: list[ColumnSource], source: ColumnSource
) -> str:
    """Where a column is without any clause, once those that go are gone."""
    assert source.old is not None
    new_names = {one.old.name: one.column.name for one in sources if one.old is not None}
    left = [column.name for column in before.columns if column.name in new_names]
    at = left.index(source.old.name)
    return f"AFTER {mysql_name(new_names[left[at - 1]])}" if at else "FIRST"


def _definition(store: MysqlStore, model: TableModel, position: str) -> str:
    keyed = {name for name, _ in model.primary_key}
    parts = [_column(store, column, keyed) for column in model.columns]
    if keyed:
        parts.append(f"PRIMARY KEY ({_key(model)})")
    table = store.table((model.database, model.name))
    return f"CREATE TABLE {table} ({', '.join(parts)}) ENGINE=InnoDB COMMENT = {store.comment(position)}"


def _column(store: MysqlStore, column: ColumnModel, keyed: set[str]) -> str:
    text = f"{mysql_name(column.name)} {store.target.column(column)}"
    if column.name in keyed or column.nullable is False:
        text += " NOT NULL"
        if column.kind == "timestamp":
            # Without a default, servers before 8.0 let it follow the clock.
            text += " DEFAULT '1971-01-01 00:00:00'"
        return text
    return text + " NULL"


def _key(model: TableModel) -> str:
    return ", ".join(
        mysql_name(name) + (f"({prefix})" if prefix else "") for name, prefix in model.primary_key
    )


def _default(column: ColumnModel, value: StoredValue) -> str:
    if value is None or (column.kind == "timestamp" and column.nullable is False):
        return ""
    if column.kind in _NO_DEFAULT or column.kind.endswith(("text", "blob")):
        if value in ("", b""):
            return ""  # what the server fills in by itself
        raise CannotFollowError(f"{column.name} cannot have a default on the mirror's server")
    if not value and not isinstance(value, int | float):
        return " DEFAULT ''"  # servers of old do not take x''
    return f" DEFAULT {mysql_value(value)}"
